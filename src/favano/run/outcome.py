"""How one seed's run ended, and sentences about runs that ended badly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import isfinite
from typing import TYPE_CHECKING

from favano.records import Row, RunRecord, Status, diverged, run_record

if TYPE_CHECKING:
    from favano.metrics import Score


def make_record(
    algorithm: str,
    row: Row,
    mean: Score,
    *,
    ended: bool,
    refused: int,
    wrapped: int,
    wall_seconds: float,
) -> RunRecord:
    """The record of a run from its last row and the score of the mean model mu_T.

    `ended` says whether it came to its end; it diverged if the last row is not finite.
    """
    status: Status = "partial" if not ended else "diverged" if diverged(row) else "complete"
    return replace(
        run_record(algorithm, row, status),
        wall_seconds=wall_seconds,
        mean_model_accuracy=mean.accuracy,
        mean_model_loss=mean.loss,
        refused_updates=refused,
        wrapped_messages=wrapped,
    )


def read_wrongly(runs: Sequence[RunRecord]) -> str | None:
    """A sentence about messages beyond the radius of the lattice, where there were any."""
    wrapped = sum(run.wrapped_messages for run in runs)
    if not wrapped:
        return None
    return (
        f"{runs[0].algorithm}: {wrapped} messages lay beyond the radius of the lattice and were "
        "read wrongly; a larger codec_scale or more codec_bits prevents it"
    )


def diverged_runs(runs: Sequence[RunRecord]) -> str | None:
    """A sentence about the seeds of one method that diverged, where there were any."""
    those = [run for run in runs if run.status == "diverged"]
    if not those:
        return None
    seeds = ", ".join(str(run.seed) for run in those)
    what = "variance" if all(isfinite(run.loss) for run in those) else "loss"
    return (
        f"{runs[0].algorithm}, seed{'s' if len(those) > 1 else ''} {seeds}: diverged: "
        f"the {what} is not finite; lower the learning rate"
    )
