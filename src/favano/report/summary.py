"""What `summary.json` says of a result: how far it came, and each seed's numbers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Annotated, Literal, TypeAlias

from pydantic import BeforeValidator, TypeAdapter

from favano.metrics import Row, null_is_nan

Number: TypeAlias = Annotated[float, BeforeValidator(null_is_nan)]


@dataclass(frozen=True)
class Run:
    """The last numbers of one seed. What the files do not say is None."""

    seed: int
    accuracy: Number
    loss: Number
    variance: Number
    time: float
    server_steps: int
    local_steps: int
    bits_up: int
    bits_down: int
    wall_seconds: float | None = None
    mean_model_accuracy: float | None = None
    mean_model_loss: float | None = None
    refused_updates: int = 0


@dataclass(frozen=True)
class Audit:
    """Whom the method favours, in one sentence with its confidence interval."""

    verdict: str


@dataclass(frozen=True)
class Summary:
    """The whole of `summary.json`; `favano` is the version that wrote it."""

    status: Literal["complete", "diverged", "partial"]
    runs: tuple[Run, ...]
    favano: str | None = None
    torch: str | None = None
    kernels: str | None = None  # of a CPU
    command: str | None = None
    audit: Audit | None = None


def read_summary(text: str) -> Summary:
    """Parse `summary.json`; a `ValueError` where it is not one. Unknown keys are let through."""
    return TypeAdapter(Summary).validate_json(text)


def last_rows(rows: Iterable[Row]) -> tuple[Run, ...]:
    """The last evaluation of every seed, for runs that came to no summary."""
    last = {row.seed: row for row in rows}
    return tuple(
        Run(
            seed=seed,
            accuracy=row.accuracy,
            loss=row.loss,
            variance=row.variance,
            time=row.time,
            server_steps=row.server_step,
            local_steps=row.local_steps,
            bits_up=row.bits_up,
            bits_down=row.bits_down,
        )
        for seed, row in sorted(last.items())
    )


def runs_at(horizon: float | None, rows: Iterable[Row], said: Iterable[Run]) -> tuple[Run, ...]:
    """The numbers of each seed at the horizon.

    Args:
        horizon: the time asked for, if any.
        rows: the evaluations up to it.
        said: what the summary says of the end of each run, which may lie after the horizon.
    """
    runs = {run.seed: run for run in last_rows(rows)}
    for run in said:
        there = runs.get(run.seed)
        if there is None or horizon is None or run.time <= horizon:
            runs[run.seed] = run
        else:
            seconds, refused = run.wall_seconds, run.refused_updates
            runs[run.seed] = replace(there, wall_seconds=seconds, refused_updates=refused)
    return tuple(runs[seed] for seed in sorted(runs))
