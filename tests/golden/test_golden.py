"""What favano does is what it did when it was recorded (`python -m tests.golden.write`)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache

import pytest

from tests.golden import KINDS
from tests.golden.comparison import Value, differences
from tests.golden.records import Records

records = cache(Records)


def every_case() -> Iterator[object]:
    for kind in KINDS:
        missing, quick = records(kind).missing, records(kind).kind.QUICK
        for case in records(kind).kind.CASES:
            marks = [] if case in quick else [pytest.mark.slow]
            marks += [pytest.mark.skip(reason=missing)] if missing else []
            yield pytest.param(kind, case, marks=marks, id=f"{kind}: {case}")


@pytest.mark.parametrize(("kind", "case"), list(every_case()))
def test_a_case_is_as_it_was_recorded(kind: str, case: str) -> None:
    known = records(kind)
    changes = known.differences(case, known.made(case))
    if changes:
        pytest.fail("\n".join([f"{kind}, {case}", *map(str, changes)]), pytrace=False)


@pytest.mark.parametrize("kind", KINDS)
def test_every_case_is_recorded(kind: str) -> None:
    known = records(kind)
    assert known.names == list(known.kind.CASES)
    assert known.kind.CASES.keys() >= set(known.kind.QUICK)


@pytest.mark.parametrize(
    ("old", "new", "here", "elsewhere"),
    [
        ({"a": [1.0, 2.0]}, {"a": [1.0, 2.0 + 1e-12]}, 0, 0),
        ({"a": [1.0, 2.0]}, {"a": [1.0, 2.1]}, 1, 1),
        ({"a": 3}, {"a": 4}, 1, 1),
        ({"a": 1}, {"a": True}, 1, 1),
        ({"a": math.nan}, {"a": math.nan}, 0, 0),
        ({"a": 1, "b": 2}, {"a": 1, "c": 2}, 2, 2),
        ({"a": [{"b": 1}]}, {"a": [{"b": 1}, {"b": 2}]}, 1, 1),
        (["1.0 s"], ["1.0000000001 s"], 1, 0),
        (["1.0 s"], ["1.0 m"], 1, 1),
    ],
)
def test_what_differs_is_found(old: Value, new: Value, here: int, elsewhere: int) -> None:
    assert len(differences(old, new, 1e-9)) == here
    assert len(differences(old, new, 1e-9, same_machine=False)) == elsewhere
