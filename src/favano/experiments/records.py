"""The end of one seed's run, as result folders and JSON documents have it."""

from __future__ import annotations

from typing import TypedDict

from favano.metrics import Row, Score


class RunRecord(TypedDict):
    """One entry of `runs` in a JSON document."""

    algorithm: str
    seed: int
    accuracy: float
    loss: float
    variance: float
    time: float
    server_steps: int
    local_steps: int
    bits_up: int
    bits_down: int
    wall_seconds: float
    mean_model_accuracy: float
    mean_model_loss: float
    refused_updates: int


def make_record(
    algorithm: str, row: Row, mean: Score, *, refused: int, wall_seconds: float
) -> RunRecord:
    """The record of a run from its last row and the score of the mean model mu_T."""
    return RunRecord(
        algorithm=algorithm,
        seed=row.seed,
        accuracy=row.accuracy,
        loss=row.loss,
        variance=row.variance,
        time=row.time,
        server_steps=row.server_step,
        local_steps=row.local_steps,
        bits_up=row.bits_up,
        bits_down=row.bits_down,
        wall_seconds=wall_seconds,
        mean_model_accuracy=mean.accuracy,
        mean_model_loss=mean.loss,
        refused_updates=refused,
    )
