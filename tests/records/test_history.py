"""Histories survive the way to CSV and back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from favano.records import Row, history_from_csv, history_to_csv

finite = st.floats(allow_nan=False)
count = st.integers(0, 2**60)
rows = st.builds(
    Row, count, finite, count, count, count, count, finite, finite, finite, finite, count
)


@given(st.lists(rows, max_size=5))
def test_there_and_back(history: list[Row]) -> None:
    assert history_from_csv(history_to_csv(history)) == history


def test_header() -> None:
    expected = "seed,time,server_step,local_steps,bits_up,bits_down,loss,accuracy,variance,"
    assert history_to_csv([]).startswith(expected)
