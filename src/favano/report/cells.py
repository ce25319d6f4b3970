"""The final table in words, one text per cell, for the page and for the screen."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from favano.report.result import Result
from favano.report.table import Spread, over, paired, reference
from favano.report.wording import DASH, fixed, percent, signed, significant

_HEADINGS: Mapping[str, str] = {
    "accuracy": "accuracy, %",
    "difference": "difference, points",
    "loss": "loss",
    "server_steps": "server steps",
    "local_steps": "local steps",
    "gigabits": "gigabits sent",
    "seeds": "seeds",
}


def columns(results: Sequence[Result]) -> dict[str, str]:
    """Columns and their headings; a difference needs two results and names its reference."""
    against = reference(results)
    headings = dict(_HEADINGS)
    if against is None or len(results) < 2:
        del headings["difference"]
    else:
        headings["difference"] = f"against {against.title}, points"
    return headings


def cells(result: Result, against: Result | None) -> dict[str, str]:
    """Every cell of a result by its column; differences are taken against another result."""
    asked, runs = result.spec.get("seeds"), result.runs
    some = isinstance(asked, int) and asked != len(runs)
    words = dict.fromkeys(_HEADINGS, DASH)
    words["seeds"] = f"{len(runs)} of {asked}" if some else str(len(runs))
    if against:
        words["difference"] = difference_words(result, against)
    if not runs:
        return words
    accuracy, loss = over(run.accuracy for run in runs), over(run.loss for run in runs)
    finite = math.isfinite(loss.mean)
    gigabits = over((run.bits_up + run.bits_down) / 1e9 for run in runs)
    return words | {
        "accuracy": f"{percent(accuracy.mean)} ± {_deviation(accuracy, 1, 100)}",
        "loss": f"{fixed(loss.mean, 3)} ± {_deviation(loss, 3)}" if finite else "not finite",
        "server_steps": fixed(over(run.server_steps for run in runs).mean, 0),
        "local_steps": fixed(over(run.local_steps for run in runs).mean, 0),
        "gigabits": significant(gigabits.mean),
    }


def difference_words(result: Result, against: Result) -> str:
    """A paired difference with its deviation and, in brackets, the number of pairs."""
    if result is against:
        return "reference"
    pair = paired(result, against)
    if pair is None:
        return DASH
    return f"{signed(100 * pair.mean)} ± {_deviation(pair, 1, 100)} ({pair.count})"


def _deviation(spread: Spread, digits: int, scale: int = 1) -> str:
    """A standard deviation; one seed has none."""
    return DASH if spread.count < 2 else fixed(scale * spread.deviation, digits)
