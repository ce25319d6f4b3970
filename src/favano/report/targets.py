"""What it costs to reach a value of the leading metric: time, local steps and messages."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from favano.errors import require
from favano.records import MetricRecord, Row
from favano.records.history import rows_by_seed
from favano.report.metric_words import amount
from favano.report.reported_result import ReportedResult
from favano.report.table import comparable, over
from favano.report.wording import DASH, fixed, significant

SHARE = 0.9  # of the best final value, where no target is given


@dataclass(frozen=True)
class Target:
    """A value of the leading metric that runs reach or not."""

    metric: MetricRecord
    value: float
    given: bool  # or a share of the best final value

    @property
    def words(self) -> str:
        """`accuracy 81.0 %, 90 % of the best`."""
        words = f"{self.metric.name} {amount(self.metric, self.value)}"
        if self.given:
            return words
        low = self.metric.best == "low"
        return f"{words}, {'the best / 0.9' if low else '90 % of the best'}"

    def reached(self, row: Row) -> bool:
        """Whether a model is as good as that."""
        value = row.value(self.metric.name)
        return value >= self.value if self.metric.best == "high" else value <= self.value


@dataclass(frozen=True)
class TargetCost:
    """Means over the seeds that reach a target, at their first evaluation that does; or NaN."""

    time: float
    server_steps: float
    local_steps: float
    gigabits: float
    reached: int
    seeds: int


def target_of(results: Sequence[ReportedResult], given: float | None = None) -> Target | None:
    """The given target, or 90 % of the best final mean of complete results; None: none is."""
    if not results or not comparable(results):
        require(given is None, "target", given, "need results of one setting")
        return None
    metric = results[0].leading
    if given is not None:
        rule = "need a share of one, as 0.8" if metric.unit == "%" else "need a finite number"
        fits = math.isfinite(given) and (metric.unit != "%" or 0 < given <= 1)
        require(fits, "target", given, rule)
        return Target(metric, given, given=True)
    ended = [result.final_runs for result in results if result.status == "complete"]
    means = [over(run.value(metric.name) for run in runs).mean for runs in ended]
    finals = list(filter(math.isfinite, means))
    high = metric.best == "high"
    best = (max if high else min)(finals, default=0.0)
    if best <= 0:  # nothing is complete, or a share of the best is better than it
        return None
    return Target(metric, best * SHARE if high else best / SHARE, given=False)


def cost_of(result: ReportedResult, target: Target) -> TargetCost:
    """What a result spent until it reached the target for the first time."""
    by_seed = rows_by_seed(result.rows_to_horizon)
    firsts = [next(filter(target.reached, rows), None) for rows in by_seed.values()]
    rows = [row for row in firsts if row is not None]
    if not rows:
        nothing = math.nan
        return TargetCost(nothing, nothing, nothing, nothing, 0, len(by_seed))
    return TargetCost(
        over(row.time for row in rows).mean,
        over(row.server_step for row in rows).mean,
        over(row.local_steps for row in rows).mean,
        over((row.bits_up + row.bits_down) / 1e9 for row in rows).mean,
        len(rows),
        len(by_seed),
    )


TARGET_COLUMNS = {
    "time": "time",
    "target_server_steps": "server steps",
    "target_local_steps": "local steps",
    "target_gigabits": "gigabits sent",
    "reached": "seeds that reach it",
}


def target_cells(result: ReportedResult, target: Target) -> dict[str, str]:
    """The cost in words, by column."""
    cost = cost_of(result, target)
    reached = f"{cost.reached} of {cost.seeds}" if cost.seeds else DASH
    if not cost.reached:
        return {**dict.fromkeys(TARGET_COLUMNS, DASH), "reached": reached}
    words = (
        significant(cost.time),
        fixed(cost.server_steps, 0),
        fixed(cost.local_steps, 0),
        significant(cost.gigabits),
        reached,
    )
    return dict(zip(TARGET_COLUMNS, words, strict=True))
