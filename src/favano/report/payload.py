"""The data of the plots, as JSON that is safe inside a page."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from favano.records import finite
from favano.report.client_scores import points
from favano.report.client_times import shows_availability
from favano.report.curves import Measure, curve, measures
from favano.report.final_tables import differences
from favano.report.metric_words import gap_unit, heading
from favano.report.palette import Look
from favano.report.reported_result import ReportedResult
from favano.report.settings import ReportSetting
from favano.types import Floats

_UNSAFE = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def payload(
    settings: Sequence[ReportSetting], looks: Mapping[str, Look], shown: Mapping[str, Measure]
) -> str:
    """All curves and clients as one JSON text, which cannot end the element around it.

    >>> payload([], {}, {})
    '{"methods":[],"measures":{},"settings":[]}'
    """
    numbers = {title: number for number, title in enumerate(looks)}
    document = {
        "methods": [
            {"title": title, "look": look.classes, "mark": look.path}
            for title, look in looks.items()
        ],
        "measures": {
            key: {"name": measure.title, "kind": measure.kind} for key, measure in shown.items()
        },
        "settings": [
            {
                "title": setting.title,
                "unit": gap_unit(setting.results[0].leading),
                "leading": _leading(setting.results[0]),
                "differences": differences(setting),
                "results": [
                    _result(each, numbers[each.title], there=shows_availability(setting, place))
                    for place, each in enumerate(setting.results)
                ],
            }
            for setting in settings
        ],
    }
    text = json.dumps(finite(document), separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    for character, escape in _UNSAFE.items():
        text = text.replace(character, escape)
    return text


def _leading(result: ReportedResult) -> dict[str, str]:
    """The name of the leading metric, and how its values are said."""
    metric = result.leading
    return {"name": heading(metric), "kind": measures([metric])[metric.name].kind}


def _result(result: ReportedResult, number: int, *, there: bool) -> dict[str, object]:
    """One result; the availability of its clients only where it is drawn."""
    drawn, record = curve(result), result.participation
    if record is not None and not there:
        record = replace(record, availability=None)
    return {
        "method": number,
        "seeds": list(drawn.seeds),
        "x": {axis: _points(values) for axis, values in drawn.along.items()},
        "y": {
            measure: {name: _points(values) for name, values in vars(band).items()}
            for measure, band in drawn.bands.items()
        },
        "participation": record,
        "served": points(result),
    }


def _points(values: Floats) -> list[float | None]:
    """Values to six significant digits, more than a screen shows; NaN becomes null."""
    return [float(f"{value:.6g}") if math.isfinite(value) else None for value in values.tolist()]
