"""Histories survive the way to CSV and back, and may be had as columns."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from favano.records import History, Row, history_from_csv, history_to_csv

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


ONE = Row(0, 7.0, 1, 3, 64, 128, 2.5, 0.25, 0.0, 0.0, 3)
TWO = ONE._replace(seed=1, accuracy=0.5)


def test_columns() -> None:
    found = History.of({"favano": [ONE, TWO]})
    assert list(found) == list(Row._fields)
    assert (found["seed"], found["accuracy"]) == ([0, 1], [0.25, 0.5])
    assert History.of({"favano": []})["loss"] == []


def test_columns_of_several_results_name_the_method() -> None:
    found = History.of({"favano": [ONE], "fedavg": [ONE, TWO], "quafl": []})
    assert list(found) == ["method", *Row._fields]
    assert found["method"] == ["favano", "fedavg", "fedavg"]
    frame = found.frame()
    assert frame.shape == (3, 1 + len(Row._fields))
    assert frame["accuracy"].tolist() == [0.25, 0.25, 0.5]
