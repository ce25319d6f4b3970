"""Histories survive the way to CSV and back, and may be had as columns."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from favano.records import History, Row, history_from_csv, history_to_csv

finite = st.floats(allow_nan=False)
count = st.integers(0, 2**60)
digests = st.text("0123456789abcdef", min_size=16, max_size=16)
names = st.lists(st.sampled_from(["accuracy", "mae", "f1"]), unique=True, max_size=3)


@st.composite
def histories(draw: st.DrawFn) -> list[Row]:
    """Rows with the same metrics, whichever they are."""
    metrics = st.fixed_dictionaries(dict.fromkeys(draw(names), finite))
    digest = draw(st.sampled_from([st.just(""), digests]))
    energy = draw(st.sampled_from([st.none(), finite]))
    row = st.builds(
        Row, count, finite, count, count, count, count, finite, metrics, finite, finite, count,
        energy, digest, digest,
    )  # fmt: skip
    return draw(st.lists(row, max_size=5))


@given(histories())
def test_there_and_back(history: list[Row]) -> None:
    assert history_from_csv(history_to_csv(history)) == history


def test_header() -> None:
    expected = "seed,time,server_step,local_steps,bits_up,bits_down,loss,accuracy,variance,"
    assert history_to_csv([]).startswith(expected)


COLUMNS = [
    "seed", "time", "server_step", "local_steps", "bits_up", "bits_down", "loss", "accuracy",
    "variance", "potential", "contributed_steps",
]  # fmt: skip
ONE = Row(0, 7.0, 1, 3, 64, 128, 2.5, {"accuracy": 0.25}, 0.0, 0.0, 3)
TWO = ONE._replace(seed=1, metrics={"accuracy": 0.5})


def test_columns() -> None:
    history = History.of({"favano": [ONE, TWO]})
    assert list(history) == COLUMNS
    assert (history["seed"], history["accuracy"]) == ([0, 1], [0.25, 0.5])
    assert History.of({"favano": []})["loss"] == []


def test_energy_is_a_column_where_it_is_counted() -> None:
    """Of a fleet that says what a step needs; files of other runs are as before."""
    counted = ONE._replace(energy=2.5)
    history = History.of({"favano": [counted, TWO]})
    assert list(history) == [*COLUMNS, "energy"]
    assert history["energy"] == [2.5, None]
    text = history_to_csv([counted, TWO])
    assert text.splitlines()[0].endswith("contributed_steps,energy")
    assert history_from_csv(text) == [counted, TWO]
    assert "energy" not in history_to_csv([ONE, TWO])


def test_columns_of_several_results_name_the_method() -> None:
    history = History.of({"favano": [ONE], "fedavg": [ONE, TWO], "quafl": []})
    assert list(history) == ["method", *COLUMNS]
    assert history["method"] == ["favano", "fedavg", "fedavg"]
    frame = history.frame()
    assert frame.shape == (3, 1 + len(COLUMNS))
    assert frame["accuracy"].tolist() == [0.25, 0.25, 0.5]


def test_a_column_for_each_metric_in_the_place_of_accuracy() -> None:
    row = ONE._replace(metrics={"mae": 1.5, "r2": 0.75})
    header, line = history_to_csv([row]).splitlines()
    assert header.split(",")[6:10] == ["loss", "mae", "r2", "variance"]
    assert line.split(",")[6:10] == ["2.5", "1.5", "0.75", "0.0"]
    assert history_from_csv(f"{header}\n{line}\n") == [row]


def test_a_problem_without_metrics_has_a_loss() -> None:
    row = ONE._replace(metrics={})
    assert ",loss,variance," in history_to_csv([row])
    assert row.value("loss") == 2.5


def test_results_with_different_metrics_in_one_table() -> None:
    history = History.of({"favano": [ONE], "fedavg": [ONE._replace(metrics={"mae": 1.5})]})
    assert (history["accuracy"], history["mae"]) == ([0.25, None], [None, 1.5])
