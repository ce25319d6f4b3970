from __future__ import annotations

import json
from math import inf, nan

from favano.records import Row, to_json
from favano.records.document import null_is_nan


def test_numbers_that_json_does_not_have_become_null() -> None:
    row = Row(0, 7.0, 1, 3, 64, 128, nan, 0.25, inf, -inf, 3)
    text = to_json({"rows": [row], "more": {"deep": (1, nan)}, "word": "nan"}, indent=2)
    document = json.loads(text, parse_constant=lambda constant: constant)
    assert document["rows"] == [[0, 7.0, 1, 3, 64, 128, None, 0.25, None, None, 3]]
    assert document["more"] == {"deep": [1, None]}
    assert document["word"] == "nan"
    assert str(null_is_nan(document["rows"])[0][6]) == "nan"  # type: ignore[index]
