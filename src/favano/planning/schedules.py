"""Schedules of many runs, planned side by side; runs with the same contacts share one."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Sequence
from functools import partial
from weakref import WeakValueDictionary

from favano.forked_calls import ForkedCalls
from favano.methods import AnyMethod
from favano.planning.fleet import conditions_digest
from favano.schedule import Schedule, plan
from favano.specification.spec import Spec, required
from favano.timing import Trace
from favano.user_classes import is_ours

_FEW = 4  # schedules that are planned sooner than processes are forked
# Schedules that are in use.
_schedules: WeakValueDictionary[Hashable, Schedule] = WeakValueDictionary()


def make_schedule(spec: Spec, method: AnyMethod, seed: int) -> Schedule:
    """The schedule of one seed up to the horizon."""
    return make_schedules([(spec, method, seed)])[0]


def make_schedules(
    runs: Sequence[tuple[Spec, AnyMethod, int]], processes: int = 0
) -> list[Schedule]:
    """The schedules of some seeds up to the horizon.

    Policies of others are planned in this process: they may keep what they see.

    Args:
        runs: specification, its method as it is bound to the seed, and seed.
        processes: that plan at the same time, if there is much to plan.
    """
    keys = [_key(spec, method, seed) for spec, method, seed in runs]
    kept = {key: schedule for key in keys if (schedule := _schedules.get(key)) is not None}
    missing = {key: run for key, run in zip(keys, runs, strict=True) if key not in kept}
    forked = [key for key, (_, method, _) in missing.items() if _only_ours(method)]
    forked = forked if len(forked) > _FEW else []
    with ForkedCalls([partial(_planned, *missing[key]) for key in forked], processes) as calls:
        calls.begin()
        kept |= {key: _planned(*run) for key, run in missing.items() if key not in forked}
        kept |= zip(forked, calls.results(), strict=True)
    _schedules.update(kept)
    return [kept[key] for key in keys]


def _planned(spec: Spec, method: AnyMethod, seed: int) -> Schedule:
    horizon = required(spec.run.horizon)
    return plan(method.run_policy, method.context.fleet, horizon=horizon, seed=seed)


def _only_ours(method: AnyMethod) -> bool:
    """Whether no code of others takes part in planning."""
    policy = method.run_policy
    selection = getattr(policy, "selection", None)
    return is_ours(policy) and (selection is None or is_ours(selection))


def _key(spec: Spec, method: AnyMethod, seed: int) -> Hashable:
    """What a schedule depends on."""
    fleet = method.context.fleet
    clients = hashlib.sha256(fleet.mean.tobytes() + fleet.streams.tobytes())
    for row in fleet.law.rows if isinstance(fleet.law, Trace) else ():  # the file may have changed
        clients.update(row.tobytes())
    clients.update(conditions_digest(fleet.conditions))
    return spec.fleet, clients.digest(), method.run_policy, required(spec.run.horizon), seed
