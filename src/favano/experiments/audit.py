"""The audit of a schedule as result folders and JSON documents have it: who trains the model."""

from __future__ import annotations

from dataclasses import asdict
from typing import TypedDict

import numpy as np

from favano.algorithms import Algorithm, State
from favano.engine import late_weights, stretch_weights
from favano.experiments.participation import speed_names
from favano.experiments.standing import Standing
from favano.schedule import Schedule
from favano.theory import CONFIDENCE, shares, verdict
from favano.timing import Fleet


class SpeedShare(TypedDict):
    """What the clients of one speed have in the server model; all shares are of one."""

    name: str
    clients: int
    weight: float
    low: float  # of the confidence interval
    high: float
    fair: float


class AuditRecord(TypedDict):
    """Lists have one entry a client, in the order of the clients, or none."""

    seed: int
    verdict: str
    confidence: float
    fair: float  # 1/n, the target of every weight
    speeds: list[SpeedShare]
    mean_step_time: list[float]
    weight: list[float]  # effective weight in the final server model


def audit(
    weights: Standing,
    algorithm: Algorithm[State],
    schedule: Schedule,
    fleet: Fleet,
    seed: int,
) -> AuditRecord:
    """Effective weights, the shares of each speed, and a verdict.

    Weights are exact for this schedule; intervals say how far the shares of another seed's schedule
    may lie. Where not every client was weighed by itself, the list of weights is empty.
    """
    group, names = fleet.groups, speed_names(fleet)
    moved = stretch_weights(algorithm, schedule, group)
    late = late_weights(algorithm, schedule, group)
    found = shares(weights.by(group), moved, np.bincount(group), names, late)
    return AuditRecord(
        seed=seed,
        verdict=_sentence(verdict(found), schedule, fleet.clients),
        confidence=CONFIDENCE,
        fair=1 / fleet.clients,
        speeds=[SpeedShare(**asdict(share)) for share in found],  # type: ignore[typeddict-item]
        mean_step_time=fleet.mean.tolist() if weights.complete else [],
        weight=weights.each.tolist() if weights.complete else [],
    )


def _sentence(judged: str, schedule: Schedule, clients: int) -> str:
    """The verdict, and whether some clients had no part in it: of that no interval speaks."""
    if not schedule.jobs:
        return "nobody: no update was made"
    silent = clients - len(np.unique(schedule.client[: schedule.jobs]))
    return f"{judged}; {silent:,} of {clients:,} clients never answered" if silent else judged
