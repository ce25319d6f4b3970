"""The final table in words, one text per cell, for the page and for the screen."""

from __future__ import annotations

import math
from collections.abc import Sequence

from favano.records import LOSS
from favano.report.metric_words import gap_unit, heading, signed_with_spread, with_spread
from favano.report.reported_result import ReportedResult
from favano.report.table import ValueSpread, over, paired, reference
from favano.report.wording import DASH, fixed, significant

_COUNTS = {
    "server_steps": "server steps",
    "local_steps": "local steps",
    "gigabits": "gigabits sent",
    "energy": "energy, joules",
    "seeds": "seeds",
}


def columns(results: Sequence[ReportedResult]) -> dict[str, str]:
    """Columns and their headings; a difference needs two results and names its reference."""
    against = reference(results)
    known = {metric.name: heading(metric) for metric in (*(against or results[0]).metrics, LOSS)}
    lead = (against or results[0]).leading.name
    first, *others = sorted(known.items(), key=lambda pair: pair[0] != lead)
    difference = []
    if against is not None and len(results) > 1:
        unit = gap_unit(against.leading)
        words = f"against {against.title}"
        difference = [("difference", f"{words}, {unit}" if unit else words)]
    energy = any(run.energy is not None for result in results for run in result.final_runs)
    return {
        **dict([first, *difference, *others]),
        **{key: text for key, text in _COUNTS.items() if energy or key != "energy"},
    }


def cells(result: ReportedResult, against: ReportedResult | None) -> dict[str, str]:
    """Every cell of a result by its column; differences are taken against another result."""
    asked, runs = result.keys.get("seeds"), result.final_runs
    some = isinstance(asked, int) and asked != len(runs)
    metrics = {record.name: record for record in result.metrics}
    words = dict.fromkeys([*metrics, LOSS.name, "difference", *_COUNTS], DASH)
    words["seeds"] = f"{len(runs)} of {asked}" if some else str(len(runs))
    if against:
        words["difference"] = difference_words(result, against)
    if not runs:
        return words
    for name, metric in metrics.items():
        words[name] = with_spread(metric, over(run.value(name) for run in runs))
    energy = [run.energy for run in runs if run.energy is not None]
    gigabits = over((run.bits_up + run.bits_down) / 1e9 for run in runs)
    return words | {
        LOSS.name: _loss(over(run.loss for run in runs), leads=result.leading == LOSS),
        "server_steps": fixed(over(run.server_steps for run in runs).mean, 0),
        "local_steps": fixed(over(run.local_steps for run in runs).mean, 0),
        "gigabits": significant(gigabits.mean),
        "energy": significant(over(energy).mean) if len(energy) == len(runs) else DASH,
    }


def _loss(spread: ValueSpread, *, leads: bool) -> str:
    """A loss to three decimals; where it leads, as metrics are said."""
    if leads or not math.isfinite(spread.mean):
        return with_spread(LOSS, spread)
    deviation = DASH if spread.count < 2 else fixed(spread.deviation, 3)
    return f"{fixed(spread.mean, 3)} ± {deviation}"


def difference_words(result: ReportedResult, against: ReportedResult) -> str:
    """A paired difference with its deviation and, in brackets, the number of pairs."""
    if result is against:
        return "reference"
    pair = paired(result, against)
    if pair is None:
        return DASH
    return f"{signed_with_spread(result.leading, pair)} ({pair.count})"
