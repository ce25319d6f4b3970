"""The curves as JSON that may stand inside a page."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import TypeAlias

from favano.report.curves import Band, curve
from favano.report.palette import colour, dash
from favano.report.result import Result
from favano.types import Floats

Points: TypeAlias = list[float | None]

_UNSAFE = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def payload(results: Sequence[Result]) -> str:
    """All series as one JSON text; nothing in it can end the script element it stands in.

    >>> payload([])
    '[]'
    """
    series = [_series(index, result) for index, result in enumerate(results)]
    text = json.dumps(series, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    for character, escape in _UNSAFE.items():
        text = text.replace(character, escape)
    return text


def _series(index: int, result: Result) -> dict[str, object]:
    drawn = curve(result)
    return {
        "title": result.title,
        "colour": colour(index),
        "dash": dash(index),
        "seeds": list(drawn.seeds),
        "x": {axis: _points(values) for axis, values in drawn.along.items()},
        "y": {measure: _band(band) for measure, band in drawn.bands.items()},
    }


def _band(band: Band) -> dict[str, Points]:
    return {"mean": _points(band.mean), "low": _points(band.low), "high": _points(band.high)}


def _points(values: Floats) -> Points:
    """Six significant digits are more than a screen shows; NaN becomes null."""
    return [float(f"{value:.6g}") if math.isfinite(value) else None for value in values.tolist()]
