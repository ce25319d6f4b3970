"""The audit of a schedule as result folders and JSON documents have it: who trains the model."""

from __future__ import annotations

from dataclasses import asdict
from typing import TypedDict

import numpy as np

from favano.algorithms import Algorithm, State
from favano.engine import answer_weights, effective_weights
from favano.experiments.participation import speed_names
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
    algorithm: Algorithm[State],
    schedule: Schedule,
    fleet: Fleet,
    seed: int,
    *,
    most_clients: int = 1000,
) -> AuditRecord:
    """Effective weights, the shares of each speed, and a verdict.

    Weights are exact for this schedule; intervals say how far the shares of another seed's schedule
    may lie. The weights of single clients cost time in proportion to their number squared; where
    there are more than `most_clients` their list is empty.
    """
    group, names = fleet.groups, speed_names(fleet)
    few = fleet.clients <= most_clients
    each = effective_weights(algorithm, schedule) if few else np.empty(0)
    whole = effective_weights(algorithm, schedule, group)
    found = shares(whole, answer_weights(algorithm, schedule, group), np.bincount(group), names)
    return AuditRecord(
        seed=seed,
        verdict=verdict(found) if schedule.jobs else "nobody: no update was made",
        confidence=CONFIDENCE,
        fair=1 / fleet.clients,
        speeds=[SpeedShare(**asdict(share)) for share in found],  # type: ignore[typeddict-item]
        mean_step_time=fleet.mean.tolist() if few else [],
        weight=each.tolist(),
    )
