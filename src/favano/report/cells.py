"""The final table in words: one text a cell, for the page and for the screen."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from favano.report.result import Result
from favano.report.table import Line, Paired, Spread, reference
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


def cells(line: Line, against: Result | None) -> dict[str, str]:
    """Every cell of a line by its column."""
    return {
        "accuracy": _accuracy(line.accuracy),
        "difference": "reference" if line.result is against else difference_words(line.difference),
        "loss": _loss(line.loss),
        "server_steps": _count(line.server_steps),
        "local_steps": _count(line.local_steps),
        "gigabits": significant(line.gigabits.mean) if line.gigabits else DASH,
        "seeds": _seeds(line.result),
    }


def _accuracy(spread: Spread | None) -> str:
    if spread is None:
        return DASH
    return f"{percent(spread.mean)} ± {_deviation(100 * spread.deviation, 1, spread.count)}"


def _loss(spread: Spread | None) -> str:
    if spread is None:
        return DASH
    if not math.isfinite(spread.mean):
        return "not finite"
    return f"{fixed(spread.mean, 3)} ± {_deviation(spread.deviation, 3, spread.count)}"


def difference_words(pair: Paired | None) -> str:
    """A paired difference with its deviation and, in brackets, the number of pairs."""
    if pair is None:
        return DASH
    spread = _deviation(100 * pair.deviation, 1, pair.pairs)
    return f"{signed(100 * pair.mean)} ± {spread} ({pair.pairs})"


def _deviation(value: float, digits: int, count: int) -> str:
    """A dash for one seed, which has no deviation."""
    return DASH if count < 2 else fixed(value, digits)


def _count(spread: Spread | None) -> str:
    return fixed(spread.mean, 0) if spread else DASH


def _seeds(result: Result) -> str:
    """Seeds that are there, of those asked for."""
    asked = result.spec.get("seeds")
    if isinstance(asked, int) and asked != len(result.runs):
        return f"{len(result.runs)} of {asked}"
    return str(len(result.runs))
