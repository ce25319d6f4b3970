"""The audit of a schedule: who trains the model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import NamedTuple

import numpy as np

from favano import theory
from favano.engine.audit import stretch_weights
from favano.planning.client_weights import ClientWeights, availability_classes, speed_classes
from favano.planning.participation import participation_of
from favano.planning.planned import Planned
from favano.policies import Uniform
from favano.records import AuditRecord, SpeedShare
from favano.records.participation import Participation
from favano.schedule import Schedule
from favano.specification.spec import Spec
from favano.training.optimisers import Optimiser
from favano.types import Ints

_HALVES = ("half with fewer samples", "half with more samples")
_OF_SAMPLES = "their share of all samples is"


class Trained(NamedTuple):
    """Who trains the model of a run, by client and as a verdict."""

    participation: Participation | None
    audit: AuditRecord | None


def who_trains(planned: Planned, *, audited: bool = True) -> Trained:
    """What the schedule says; nothing where clients have no weights."""
    record = audit(planned, planned.weights) if audited and planned.linear else None
    return Trained(participation_of(planned), record)


def audit(planned: Planned, weights: ClientWeights) -> AuditRecord:
    """Effective weights, the share of each speed (or tenth of speeds), and a verdict.

    Where clients come and go, also the shares of clients that are there as often.
    Weights are exact for this schedule and local rule if all gradients have equal length. Intervals
    are for the mean share over all schedules; the share of another seed may lie further out. The
    list of weights is empty unless every client has a weight of its own. Where samples count, the
    fair share of clients is that of their samples, and the half of them that has fewer samples
    than the other is audited, too, if every client has a weight of its own.
    """
    fleet, fair, omitted = planned.fleet, planned.fair, left_out(planned.spec)
    classes: dict[str, tuple[Sequence[str], Ints]] = {"speed": speed_classes(fleet)}
    if fleet.conditions.presence is not None:
        classes["availability"] = availability_classes(fleet)
    if fair is not None and weights.complete and fair.min() < fair.max():
        rank = np.argsort(np.argsort(fair, kind="stable"), kind="stable")
        classes["size"] = _HALVES, 2 * rank // fleet.clients
    by = dict(zip(classes, _shares(planned, weights, list(classes.values())), strict=True))
    by_speed, by_availability, by_size = (
        by.get(kind, []) for kind in ("speed", "availability", "size")
    )
    sentence = _sentence(by_speed, by_availability, planned, omitted)
    if by_size and planned.schedule.jobs:
        sentence += f"; by size it {theory.verdict(by_size, fair_is=_OF_SAMPLES)}"
    return AuditRecord(
        seed=planned.seed,
        verdict="; ".join([sentence, *_selection_bias(planned)]),
        confidence=theory.CONFIDENCE,
        fair=1 / fleet.clients,
        speeds=tuple(SpeedShare(**asdict(share)) for share in by_speed),
        mean_step_time=tuple(fleet.mean.tolist()) if weights.complete else (),
        weight=tuple(weights.each.tolist()) if weights.complete else (),
        left_out=omitted,
        availability=tuple(SpeedShare(**asdict(share)) for share in by_availability),
        sizes=tuple(SpeedShare(**asdict(share)) for share in by_size),
        fair_weight=tuple(fair.tolist()) if fair is not None and weights.complete else (),
    )


def _shares(
    planned: Planned, weights: ClientWeights, classes: Sequence[tuple[Sequence[str], Ints]]
) -> list[list[theory.ShareEstimate]]:
    """The shares of clients that are classed in several ways, beside what is fair."""
    edges = np.cumsum([0, *(len(names) for names, _ in classes)]).tolist()
    places = [group + edge for edge, (_, group) in zip(edges, classes, strict=False)]
    stretches, schedule, due = weights.of_cells.stretches, planned.schedule, planned.fair
    with np.errstate(over="ignore", invalid="ignore"):  # the schedule is gone through once
        moved = stretch_weights(
            planned.method, schedule, np.stack(places, axis=1), stretches, planned.local_steps
        )
    shares = []
    for edge, (names, group) in zip(edges, classes, strict=False):
        final, late, _ = weights.by(group)
        own, updates = moved[:, edge : edge + len(names)], _answers(schedule, group, stretches)
        fair = None if due is None else np.bincount(group, due).astype(np.float64)
        about = final, own, np.bincount(group), names, late
        shares.append(theory.shares(*about, updates=updates, fair=fair))
    return shares


def _answers(schedule: Schedule, group: Ints, stretches: Ints) -> Ints:
    """The client updates with steps that are used in each stretch, by group, (B, g)."""
    used = np.flatnonzero(schedule.steps[: schedule.jobs] > 0)
    stretch = np.searchsorted(stretches, schedule.used_by[used], side="right") - 1
    counts = np.zeros((len(stretches), int(group.max()) + 1), dtype=np.int64)
    np.add.at(counts, (stretch, group[schedule.client[used]]), 1)
    return counts


def _selection_bias(planned: Planned) -> list[str]:
    """What a selection that is not uniform does, in words."""
    method, schedule, rule = planned.method, planned.schedule, planned.spec.clock.selection
    if rule == Uniform() or not schedule.jobs:
        return []
    names, group = speed_classes(planned.fleet)
    share = np.bincount(group[schedule.client[: schedule.jobs]], minlength=len(names))
    fair, share = np.bincount(group) / len(group), share / share.sum()
    most = int(np.argmax(share - fair))
    who = f"{names[most]} clients" if "tenth" not in names[most] else f"the {names[most]}"
    words = [
        f"selected by {rule.name}, {who} send {share[most]:.1%} of all client updates, fair is "
        f"{fair[most]:.1%}"
    ]
    if getattr(method, "reweight", "none") != "none":
        source = getattr(method, "weights", "given")
        unbiased = {"exact": "unbiased", "given": "as the given weights are"}
        words.append(
            f"each client's message is {unbiased.get(source, 'unbiased up to estimates')}, but "
            "clients count as often as they are selected"
        )
    by_samples = getattr(method, "sample_weights", None)
    if rule.uses_samples and by_samples:
        words.append("samples count twice, in the selection and by sample_weights")
    elif by_samples is False and rule.uses_samples:
        words.append("samples count by the selection alone, about in proportion")
    return words


def left_out(spec: Spec) -> tuple[str, ...]:
    """The parts of a run that the audit ignores."""
    ignored = {
        "compression of messages": spec.run.codec != "none",
        "low-precision training": spec.training.quantise != "none",
        "the clients' optimiser": not _adds_up(spec.training.local_optimiser),
    }
    return tuple(name for name, used in ignored.items() if used)


def _adds_up(optimiser: Optimiser) -> bool:
    """Whether a job's progress is a sum of its own gradients, with weights that are known."""
    return replace(optimiser, momentum=0.0).plain and not optimiser.kept


def _sentence(
    by_speed: Sequence[theory.ShareEstimate],
    by_availability: Sequence[theory.ShareEstimate],
    planned: Planned,
    omitted: Sequence[str],
) -> str:
    """The verdict, the number of clients that never answered, and what the audit ignores."""
    schedule, clients = planned.schedule, planned.fleet.clients
    if not schedule.updates:
        return "made no update"
    if not schedule.jobs:
        return (
            f"made {schedule.updates:,} server steps without a client update: no client was in time"
        )
    if not all(math.isfinite(share.weight) for share in by_speed):
        return "has no shares: its models grow beyond all numbers"
    silent = clients - len(np.unique(schedule.client[: schedule.jobs]))
    # Most are silent in a short run; in one with an update per client the method is the reason.
    enough = 2 * silent <= clients or schedule.jobs >= clients
    fair_is = "fair is" if planned.fair is None else _OF_SAMPLES
    parts = [theory.verdict(by_speed, enough=enough, fair_is=fair_is)]
    if enough and any(share.favoured or share.slighted for share in by_availability):
        parts.append(f"by availability, it {theory.verdict(by_availability, fair_is=fair_is)}")
    parts += [f"{silent:,} of {clients:,} clients never answered"] if silent else []
    parts += [f"left out: {', '.join(omitted)}"] if omitted else []
    return "; ".join(parts)
