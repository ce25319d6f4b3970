"""The codec of all CSV files."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import pytest

from favano.records.table import from_csv, to_csv


class Line(NamedTuple):
    name: str
    end: Literal["good", "bad"]
    whole: int
    size: float
    rest: int | None = None


ONE = Line('with "quotes", commas', "bad", 2**60, 0.1 + 0.2, 7)


def test_there_and_back() -> None:
    lines = [ONE, Line("", "good", -1, math.inf)]
    text = to_csv(Line, lines)
    assert text.splitlines()[0] == "name,end,whole,size,rest"
    assert from_csv(Line, text) == lines
    assert math.isnan(from_csv(Line, to_csv(Line, [ONE._replace(size=math.nan)]))[0].size)


def test_floats_are_shortened_and_nothing_else() -> None:
    line = Line("a", "good", 1234567, 1234567.0, 7654321)
    assert to_csv(Line, [line], digits=6).splitlines()[1] == "a,good,1234567,1.23457e+06,7654321"
    assert to_csv(Line, [line._replace(size=0.0)], digits=6).splitlines()[1].endswith(",0,7654321")


def test_columns_in_another_order_and_more_of_them() -> None:
    assert from_csv(Line, "size,new,whole,end,name,rest\n1,x,2,good,a,\n") == [
        Line("a", "good", 2, 1.0)
    ]
    assert from_csv(Line, "") == from_csv(Line, "name\n") == []


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("name,end,whole,size,rest\na,good,1,2.0\n", "^a row is cut short$"),
        ("name,end,whole,rest\na,good,1,\n", "^no column 'size'$"),
        ("name,end,whole,size,rest\na,best,1,2.0,\n", "^end best: need one of good, bad$"),
        ("name,end,whole,size,rest\na,good,1.5,2.0,\n", "1.5"),
        ("name,end,whole,size,rest\na,good,,2.0,\n", "invalid literal"),
    ],
)
def test_damage_is_named(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        from_csv(Line, text)
