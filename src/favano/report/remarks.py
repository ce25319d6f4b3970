"""What must be said beside the numbers of a result: that it diverged, or that it learnt nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isfinite

from favano.records import MetricRecord, Row, RunRecord
from favano.report.reported_result import ReportedResult
from favano.report.wording import listed, significant

_ADVICE = "lower the learning rate"


def remarks_on(result: ReportedResult) -> list[str]:
    """What is wrong with its final models, and in how many seeds, as `diverged: ...`.

    A run that is still to come to its end may yet learn.
    """
    runs, metric, seeds = result.final_runs, result.leading, dict[tuple[str, str], list[int]]()
    first = {row.seed: row for row in result.rows_to_horizon if row.time == 0}
    for run in runs:
        if found := _remark(run, metric, first.get(run.seed)):
            seeds.setdefault(found, []).append(run.seed)
    said = [f"{what}{_where(some, len(runs))}{why}" for (what, why), some in seeds.items()]
    if result.status == "diverged" and not any(what == "diverged" for what, _ in seeds):
        said.append(f"diverged after the horizon; {_ADVICE}")
    return said


def remark_sentences(results: Iterable[ReportedResult]) -> list[str]:
    """The remarks on several results, with their names."""
    return [f"{result.title} {remark}." for result in results for remark in result.remarks]


def _remark(run: RunRecord, metric: MetricRecord, first: Row | None) -> tuple[str, str] | None:
    """What is wrong with the final model of a seed, and why, given its row at time 0."""
    if run.cause:
        return "diverged", f": {run.cause}"
    for what, value in (("loss", run.loss), ("variance", run.variance)):
        if not isfinite(value):
            return "diverged", f": the {what} is not finite; {_ADVICE}"
    if not isfinite(final := run.value(metric.name)):
        return f"has no finite {metric.name}", ""
    if run.status == "partial":
        return None
    if not run.server_steps:
        return "is untrained", f": no server step by time {significant(run.time)}"
    untrained = None if first is None else first.value(metric.name)
    if untrained is None or not isfinite(untrained) or metric.better(final, untrained):
        return None
    return "is no better than the untrained model", ""


def _where(seeds: Sequence[int], count: int) -> str:
    """The seeds that a remark is about, of so many.

    >>> _where([0], 1), _where([0, 1], 2), _where([1, 4], 5)
    ('', ' in 2 of 2 seeds', ' in 2 of 5 seeds (1 and 4)')
    """
    if count == 1:
        return ""
    which = f" ({listed(list(map(str, seeds)))})" if len(seeds) < count else ""
    return f" in {len(seeds)} of {count:,} seeds{which}"
