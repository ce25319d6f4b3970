"""The audit of a schedule: who trains the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import numpy as np

from favano.engine.audit import late_weights, stretch_weights
from favano.planning.client_weights import ClientWeights, speed_names
from favano.planning.planned import Planned
from favano.records import AuditRecord, SpeedShare
from favano.schedule import Schedule
from favano.specification.spec import Spec
from favano.theory import CONFIDENCE, shares, verdict


def audit(planned: Planned, weights: ClientWeights) -> AuditRecord:
    """Effective weights, the shares of each speed, and a verdict.

    Weights are exact for this schedule and local rule, with gradients of equal length. Intervals
    are those of the mean share over all schedules; the share of one other seed lies further out.
    Where not every client was weighed by itself, the list of weights is empty.
    """
    method, schedule, fleet = planned.method, planned.schedule, planned.fleet
    group, names, local = fleet.groups, speed_names(fleet), planned.local_steps
    moved = stretch_weights(method, schedule, group, local)
    late = late_weights(method, schedule, group, local)
    found = shares(weights.by(group), moved, np.bincount(group), names, late)
    return AuditRecord(
        seed=planned.seed,
        verdict=_sentence(verdict(found), schedule, fleet.clients, left_out(planned.spec)),
        confidence=CONFIDENCE,
        fair=1 / fleet.clients,
        speeds=tuple(SpeedShare(**asdict(share)) for share in found),
        mean_step_time=tuple(fleet.mean.tolist()) if weights.complete else (),
        weight=tuple(weights.each.tolist()) if weights.complete else (),
        left_out=left_out(planned.spec),
    )


def left_out(spec: Spec) -> tuple[str, ...]:
    """What of a run the audit does not know."""
    known = {
        "compression of messages": spec.run.codec != "none",
        "rounding to few bits": spec.training.quantise != "none",
    }
    return tuple(what for what, there in known.items() if there)


def _sentence(judged: str, schedule: Schedule, clients: int, omitted: Sequence[str]) -> str:
    """The verdict, who had no part in it (no interval speaks of that), and what was left out."""
    if not schedule.jobs:
        return "nobody: no update was made"
    silent = clients - len(np.unique(schedule.client[: schedule.jobs]))
    parts = [judged]
    parts += [f"{silent:,} of {clients:,} clients never answered"] if silent else []
    parts += [f"left out: {', '.join(omitted)}"] if omitted else []
    return "; ".join(parts)
