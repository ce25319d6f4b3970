"""Final numbers: means over seeds, and differences paired by seed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from favano.records import RunRecord
from favano.report.reported_result import ReportedResult
from favano.report.settings import agree

CONFIDENCE = 0.95
FEWEST = 5  # seeds that an interval is made of


@dataclass(frozen=True)
class ValueSpread:
    """Mean over seeds and standard deviation (ddof = 1; NaN for one seed)."""

    mean: float
    deviation: float
    count: int

    @property
    def interval(self) -> tuple[float, float] | None:
        """The t interval of the mean over all seeds; None with too few of them to say.

        mean -+ t deviation / sqrt(count), with count - 1 degrees of freedom.

        >>> low, high = ValueSpread(1.0, 0.5, 5).interval
        >>> round(low, 3), round(high, 3), ValueSpread(1.0, 0.5, 4).interval
        (0.379, 1.621, None)
        """
        if self.count < FEWEST or not math.isfinite(self.deviation):
            return None
        from scipy.special import stdtrit  # it takes longer to load than all the rest

        quantile = float(stdtrit(self.count - 1, (1 + CONFIDENCE) / 2))
        margin = quantile * self.deviation / math.sqrt(self.count)
        return self.mean - margin, self.mean + margin


def over(values: Iterable[float]) -> ValueSpread:
    """Mean and standard deviation of at least one value."""
    array = np.array(list(values), dtype=np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        deviation = float(array.std(ddof=1)) if len(array) > 1 else math.nan
        return ValueSpread(float(array.mean()), deviation, len(array))


def reference(results: Sequence[ReportedResult]) -> ReportedResult | None:
    """The first result that has numbers: the others are compared with it."""
    return next((result for result in results if result.final_runs), None)


def paired(result: ReportedResult, other: ReportedResult) -> ValueSpread | None:
    """The leading metric of `result` minus that of `other`, over the seeds that both completed.

    None if there is no such seed, or if data, fleet or horizon differ: a difference between runs of
    two lengths, or on two tasks, would say nothing about the methods.
    """
    if not comparable([result, other]):
        return None
    mine, theirs = finished(result), finished(other)
    common = sorted(mine.keys() & theirs.keys())
    name = result.leading.name
    gaps = [mine[seed].value(name) - theirs[seed].value(name) for seed in common]
    return over(gaps) if gaps else None


def comparable(results: Sequence[ReportedResult]) -> bool:
    """Whether all belong to one setting: the same data, fleet and simulated time."""
    return all(agree(results[0], result) for result in results)


def finished(result: ReportedResult) -> dict[int, RunRecord]:
    """The runs that reached the horizon, by seed; without a horizon, all of a result that ended."""
    if result.horizon is None:
        return {run.seed: run for run in result.final_runs} if result.ended else {}
    enough = result.horizon * (1 - 1e-9)
    return {run.seed: run for run in result.final_runs if result.ended or run.time >= enough}
