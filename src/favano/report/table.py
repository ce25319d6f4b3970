"""The last numbers of each result, and paired differences against the first."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from favano.records import RunRecord
from favano.report.result import Result
from favano.report.settings import agree


@dataclass(frozen=True)
class Spread:
    """Mean over seeds and standard deviation (ddof = 1; NaN for one seed)."""

    mean: float
    deviation: float
    count: int


@dataclass(frozen=True)
class Paired:
    """Differences of accuracy, seed by seed, against another result; shares of one."""

    mean: float
    deviation: float
    pairs: int
    higher: int
    lower: int


@dataclass(frozen=True)
class Line:
    """One line of the final table. Without any run every number is None."""

    result: Result
    accuracy: Spread | None
    loss: Spread | None
    time: Spread | None
    server_steps: Spread | None
    local_steps: Spread | None
    gigabits: Spread | None
    difference: Paired | None  # None also where nothing can be paired


def final_lines(results: Sequence[Result]) -> list[Line]:
    """The final table, differences against `reference(results)`."""
    first = reference(results)
    return [
        Line(
            result=result,
            accuracy=_over_seeds(result, lambda run: run.accuracy),
            loss=_over_seeds(result, lambda run: run.loss),
            time=_over_seeds(result, lambda run: run.time),
            server_steps=_over_seeds(result, lambda run: run.server_steps),
            local_steps=_over_seeds(result, lambda run: run.local_steps),
            gigabits=_over_seeds(result, lambda run: (run.bits_up + run.bits_down) / 1e9),
            difference=None if first is None or result is first else paired(result, first),
        )
        for result in results
    ]


def reference(results: Sequence[Result]) -> Result | None:
    """The first result that has numbers."""
    return next((result for result in results if result.runs), None)


def paired(result: Result, other: Result) -> Paired | None:
    """Accuracy of `result` minus that of `other` over the seeds that both brought to the end.

    None where there is no such seed, or where data, fleet or horizon differ: a difference between
    runs of two lengths, or on two tasks, would say nothing about the algorithms.
    """
    if not comparable([result, other]):
        return None
    mine, theirs = finished(result), finished(other)
    common = sorted(mine.keys() & theirs.keys())
    if not common:
        return None
    differences = [mine[seed].accuracy - theirs[seed].accuracy for seed in common]
    spread = over(differences)
    higher = sum(difference > 0 for difference in differences)
    lower = sum(difference < 0 for difference in differences)
    return Paired(spread.mean, spread.deviation, len(common), higher, lower)


def comparable(results: Sequence[Result]) -> bool:
    """Whether all are of one setting: the same data, fleet and simulated time."""
    return all(agree(results[0], result) for result in results)


def finished(result: Result) -> dict[int, RunRecord]:
    """Runs by seed, those that reached the horizon; without one, all of a result that ended."""
    if result.horizon is None:
        return {run.seed: run for run in result.runs} if result.ended else {}
    enough = result.horizon * (1 - 1e-9)
    return {run.seed: run for run in result.runs if result.ended or run.time >= enough}


def over(values: Iterable[float]) -> Spread:
    """Mean and standard deviation of at least one value."""
    array = np.array(list(values), dtype=np.float64)
    with np.errstate(invalid="ignore"):
        deviation = float(array.std(ddof=1)) if len(array) > 1 else math.nan
        return Spread(float(array.mean()), deviation, len(array))


def _over_seeds(result: Result, value: Callable[[RunRecord], float]) -> Spread | None:
    return over(value(run) for run in result.runs) if result.runs else None
