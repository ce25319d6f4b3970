"""The end of one seed's run, as result folders and JSON documents have it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypedDict

from favano.metrics import Row

if TYPE_CHECKING:
    from favano.metrics import Score


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
    wrapped_messages: int


def make_record(
    algorithm: str, row: Row, mean: Score, *, refused: int, wrapped: int, wall_seconds: float
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
        wrapped_messages=wrapped,
    )


def read_wrongly(runs: Sequence[RunRecord]) -> str | None:
    """A sentence about messages beyond the radius of the lattice, where there were any."""
    wrapped = sum(run["wrapped_messages"] for run in runs)
    if not wrapped:
        return None
    return (
        f"{runs[0]['algorithm']}: {wrapped} messages lay beyond the radius of the lattice and were "
        "read wrongly; a larger codec_scale or more codec_bits prevents it"
    )
