"""The end of one seed's run, as result folders and JSON documents have it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Literal, TypeAlias, TypedDict, get_args

from favano.metrics import Row, diverged

if TYPE_CHECKING:
    from favano.metrics import Score


Status: TypeAlias = Literal["complete", "diverged", "partial"]  # the worst last


def worst(statuses: Iterable[Status]) -> Status:
    """The status of several runs together.

    >>> worst(["complete", "partial", "diverged"])
    'partial'
    """
    return max(statuses, key=get_args(Status).index)


class RunRecord(TypedDict):
    """One entry of `runs` in a JSON document."""

    algorithm: str
    seed: int
    status: Status
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
    return RunRecord(
        algorithm=algorithm,
        seed=row.seed,
        status="partial" if not ended else "diverged" if diverged(row) else "complete",
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


def diverged_runs(runs: Sequence[RunRecord]) -> str | None:
    """A sentence about the seeds of one method that diverged, where there were any."""
    those = [run for run in runs if run["status"] == "diverged"]
    if not those:
        return None
    seeds = ", ".join(str(run["seed"]) for run in those)
    what = "variance" if all(isfinite(run["loss"]) for run in those) else "loss"
    return (
        f"{runs[0]['algorithm']}, seed{'s' if len(those) > 1 else ''} {seeds}: diverged: "
        f"the {what} is not finite; lower the learning rate"
    )
