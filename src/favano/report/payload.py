"""The data of the plots, as JSON that is safe inside a page."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from favano.records import finite
from favano.report.client_scores import points
from favano.report.client_times import shows_availability
from favano.report.curves import Measure, curve, measures, seed_lines
from favano.report.final_tables import differences
from favano.report.metric_words import gap_unit, heading
from favano.report.palette import Look
from favano.report.reported_result import ReportedResult
from favano.report.settings import ReportSetting
from favano.report.settings import setting as value_of
from favano.types import Floats

_MOST_POINTS = 20_000  # of the lines of single seeds; with all that is shown, a page of 2 MB
_UNSAFE = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def payload(
    settings: Sequence[ReportSetting],
    looks: Mapping[str, Look],
    shown: Mapping[str, Measure],
    keys: Sequence[str] = (),
) -> str:
    """All curves and clients as one JSON text, which cannot end the element around it.

    >>> payload([], {}, {})
    '{"methods":[],"measures":{},"settings":[]}'
    """
    each_seed = shows_seeds(settings)
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
                    {
                        **_result(
                            each, numbers[each.title], there=shows_availability(setting, place)
                        ),
                        "keys": {key: value_of(each, key) for key in keys},
                        "runs": _runs(each) if each_seed else [],
                    }
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


def shows_seeds(settings: Sequence[ReportSetting]) -> bool:
    """Whether the lines of single seeds are there, and not too many."""
    results = [result for setting in settings for result in setting.results]
    several = [
        result for result in results if len({row.seed for row in result.rows_to_horizon}) > 1
    ]
    points = sum(len(result.rows_to_horizon) for result in several)
    return 0 < points <= _MOST_POINTS


def _runs(result: ReportedResult) -> list[dict[str, object]]:
    """The line of each seed; the payload is for eyes, so that its numbers are short."""
    return [
        {
            "seed": line.seed,
            "x": {axis: _points(values, 5) for axis, values in line.along.items()},
            "y": {key: _points(values, 4) for key, values in line.values.items()},
        }
        for line in seed_lines(result)
    ]


def _points(values: Floats, digits: int = 6) -> list[float | None]:
    """Values to six significant digits, more than a screen shows; NaN becomes null."""
    return [
        float(f"{value:.{digits}g}") if math.isfinite(value) else None for value in values.tolist()
    ]
