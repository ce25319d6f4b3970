from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, nan

from favano.records import to_json
from favano.records.document import null_is_nan, omitted, spread


def test_numbers_that_json_does_not_have_become_null() -> None:
    row = (0, 7.0, 1, 3, 64, 128, nan, 0.25, inf, -inf, 3)
    text = to_json({"rows": [row], "more": {"deep": (1, nan)}, "word": "nan"}, indent=2)
    document = json.loads(text, parse_constant=lambda constant: constant)
    assert document["rows"] == [[0, 7.0, 1, 3, 64, 128, None, 0.25, None, None, 3]]
    assert document["more"] == {"deep": [1, None]}
    assert document["word"] == "nan"
    assert str(null_is_nan(document["rows"])[0][6]) == "nan"  # type: ignore[index]


@dataclass(frozen=True)
class Measured:
    """A document with metrics of any name."""

    seed: int
    metrics: Mapping[str, float] = spread()
    mean: Mapping[str, float] = spread("mean_")
    unit: str = omitted("%")


def test_a_mapping_may_be_spread_over_the_document() -> None:
    measured = Measured(3, {"mae": 0.5, "r2": nan}, {"mae": 0.25})
    assert to_json(measured) == '{"seed": 3, "mae": 0.5, "r2": null, "mean_mae": 0.25}'


def test_a_default_may_be_left_out() -> None:
    assert to_json(Measured(3)) == '{"seed": 3}'
    assert to_json(Measured(3, unit="kW")) == '{"seed": 3, "unit": "kW"}'
