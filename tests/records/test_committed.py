"""Committed results read, and would be written again to the byte."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from favano.records import (
    complexities_from_csv,
    complexities_to_csv,
    curves_from_csv,
    curves_to_csv,
    entries_from_csv,
    entries_to_csv,
    read_file,
)
from favano.records.folder import COMPLEXITIES, CURVES

RESULTS = Path(__file__).parent.parent.parent / "results"
PLAIN = ("plan", "fleets")  # tables of scripts in docs/, which are no records
FILES = sorted(path for path in RESULTS.glob("*/*.csv") if path.parent.name not in PLAIN)


def written_again(path: Path) -> Callable[[str], str]:
    if path.name == CURVES:
        return lambda text: curves_to_csv(curves_from_csv(text))
    if path.name == COMPLEXITIES:
        return lambda text: complexities_to_csv(complexities_from_csv(text))
    return lambda text: entries_to_csv(entries_from_csv(text))


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_to_the_byte(path: Path) -> None:
    assert read_file(path, written_again(path)).encode() == path.read_bytes()


def test_every_kind_is_there() -> None:
    assert {CURVES, COMPLEXITIES, "runs.csv", "tuning.csv"} <= {path.name for path in FILES}
