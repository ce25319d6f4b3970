"""The server transforms of one run, as a chain around its method."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from copy import deepcopy
from dataclasses import replace
from typing import TypeAlias, cast

import numpy as np
import torch
from torch import Tensor

from favano.errors import BadInput, in_hook, require
from favano.methods import ClientUpdates, Method
from favano.methods.arrays import column
from favano.methods.method import S
from favano.policies import Adaptive, Buffered, Policy, Polling, Rounds
from favano.preflight.method import same
from favano.transforms import AnyTransform
from favano.types import Floats, Vector
from favano.user_classes import is_ours

States: TypeAlias = tuple[object, ...]  # of the transforms, in order
_SIZE = 5  # of the model that own transforms are tried out on


class ServerChain:
    """Transforms in order, for one method. It holds no state: that of a run is handed through."""

    def __init__(self, method: Method[S], transforms: Sequence[AnyTransform] = ()) -> None:
        """Refuse transforms that the method or their order leaves without use."""
        self._transforms = tuple(transforms)
        self.changes_deltas = any(transform.has("deltas") for transform in transforms)
        for transform in transforms:
            if transform.has("deltas"):
                _check_deltas(method, transform)
            if transform.has("step"):
                _check_step(method, transform)
            if not is_ours(transform):
                _check_pure(transform)
        of_step = next((made.name for made in transforms if not made.has("deltas")), "")
        names = [made.name for made in transforms]
        for place, transform in enumerate(transforms):
            late = of_step in names[:place] and not transform.has("step")
            rule = f"changes client deltas, which come before the step: put it before {of_step}"
            require(not late, "server", transform.name, rule)

    def __len__(self) -> int:
        return len(self._transforms)

    def init(self, model: Vector) -> States:
        """The states before the first update."""
        return tuple(_began(transform, model) for transform in self._transforms)

    def deltas(
        self, states: States, updates: ClientUpdates, weight: Floats
    ) -> tuple[ClientUpdates, States]:
        """Client updates whose deltas are transformed; `weight` is (k,), all a_i.

        What the transforms leave alone is left to the bit.
        """
        with_say = np.flatnonzero((updates.steps > 0) & (weight != 0))
        end = updates.start.clone()
        if not len(with_say):
            return replace(updates, end=end), states
        rows = updates.rows(with_say)
        share = column(len(weight) * weight[with_say], end)
        most = torch.finfo(end.dtype).max  # a lie that overflows is as long as it can be
        given = new = (share * (rows.end - rows.start)).clamp(-most, most)
        after = []
        for transform, state in zip(self._transforms, states, strict=True):
            if transform.has("deltas"):
                new, state = _called(transform, "deltas", new, state, rows)
            after.append(state)
        end[with_say] = torch.where(new == given, rows.end, rows.start + new / share)
        return replace(updates, end=end), tuple(after)

    def step(self, states: States, before: Vector, after: Vector) -> tuple[Vector, States]:
        """The new server model, from those before and after the method's own step."""
        step, states_after = after - before, []
        for transform, state in zip(self._transforms, states, strict=True):
            if transform.has("step"):
                step, state = _called(transform, "step", step, state)
            states_after.append(state)
        return before + step, tuple(states_after)


def _hook(transform: AnyTransform, hook: str) -> AbstractContextManager[None]:
    return in_hook("server", transform.name, hook, torch.cuda.OutOfMemoryError)


def _began(transform: AnyTransform, model: Vector) -> object:
    with _hook(transform, "init"):
        return transform.init(model)


def _called(
    transform: AnyTransform, hook: str, given: Tensor, state: object, *more: ClientUpdates
) -> tuple[Tensor, object]:
    """What a hook returns; refused with the name of the transform if it cannot be used."""
    function = cast(Callable[..., object], getattr(transform, hook))
    with _hook(transform, hook):
        returned = function(state, given, *more)
    new = returned[0] if isinstance(returned, tuple) and len(returned) == 2 else None
    if not isinstance(new, Tensor):
        rule = f"{hook} must return a pair of a tensor and the next state"
        raise BadInput("server", transform.name, rule)
    rule = f"{hook} returns numbers of shape {tuple(new.shape)}; need {tuple(given.shape)}"
    require(new.shape == given.shape, "server", transform.name, rule)
    if not is_ours(transform):
        rule = f"{hook} makes NaN or infinity of finite numbers"
        finite = bool(new.isfinite().all()) or not bool(given.isfinite().all())
        require(finite, "server", transform.name, rule)
    return new, cast(tuple[Tensor, object], returned)[1]


def _check_deltas(method: Method[S], transform: AnyTransform) -> None:
    """Refuse what would change nothing, or something else than the update."""
    rule = f"cannot be used with {method.name}, whose corrections are made of each client's own"
    require(not method.corrects, "server", transform.name, f"{rule} delta")
    rule = f"cannot be used with {method.name}, whose clients go on from models of their own"
    require(not method.has("next_client_model"), "server", transform.name, rule)
    count, fewest = _clients_per_update(method.run_policy), transform.fewest
    rule = f"needs updates of at least {fewest} clients; {method.name} makes them of {count}"
    require(count is None or count >= fewest, "server", transform.name, rule)


def _clients_per_update(policy: Policy) -> int | None:
    """Clients per update; None: as many as there are."""
    match policy:
        case Polling():
            return policy.selected
        case Buffered():
            return policy.buffer
        case Rounds():
            return policy.wait_for or policy.selected
        case Adaptive():
            return 1
    return None


def _check_step(method: Method[S], transform: AnyTransform) -> None:
    """Refuse a method without a step on the server: one that averages models.

    Tried out on one number: if no client has moved, the server's model must not move either.
    """
    zero, model = np.zeros(1, dtype=np.int64), torch.zeros(1, dtype=torch.float64)
    start = model[None] + 1.0
    updates = ClientUpdates(zero, zero + 1, zero, np.ones(1), 0, start, start)
    after = method.aggregate(method.init(model), updates).model
    rule = (
        f"cannot be used with {method.name}, which averages models instead of making a step: its "
        "server model moves even if no client does"
    )
    require(torch.equal(after, model), "server", transform.name, rule)


def _check_pure(transform: AnyTransform) -> None:
    """Refuse an own transform that is not what it must be, after two updates of a tiny model."""
    rule = "gives another result for the same inputs: it must not draw at random, nor remember"
    require(same(_tried(transform), _tried(transform)), "server", transform.name, rule)


def _tried(transform: AnyTransform) -> list[Tensor]:
    draws, results = np.random.default_rng(7), list[Tensor]()

    def drawn(*shape: int) -> Tensor:
        return torch.from_numpy(draws.standard_normal(shape))

    client = np.arange(max(3, transform.fewest))
    start, state = drawn(len(client), _SIZE), _began(transform, drawn(_SIZE))
    for version in range(2):
        deltas = drawn(len(client), _SIZE)
        rates = np.full(len(client), 0.1)
        updates = ClientUpdates(client, client + 1, client, rates, version, start, start + deltas)
        for hook, given, more in (("deltas", deltas, [updates]), ("step", drawn(_SIZE), [])):
            before = deepcopy((state, given, start, updates.end))
            new, after = _called(transform, hook, given, state, *more)
            rule = f"changes its inputs in {hook}; return new numbers instead"
            unchanged = same(before, (state, given, start, updates.end))
            require(unchanged, "server", transform.name, rule)
            state = after
            results.append(new)
    return results
