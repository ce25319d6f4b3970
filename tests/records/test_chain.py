"""The chain of digests notices every change of a history."""

from __future__ import annotations

from math import inf, nan

import pytest

from favano.records import Row, history_from_csv, history_to_csv
from favano.records.chain import chain_start, first_broken, link
from favano.records.history import columns

START = chain_start({"data": "d", "method": None}, seed=0)


def chained(rows: list[Row], start: str = START) -> list[Row]:
    linked: list[Row] = []
    for row in rows:
        linked.append(row._replace(digest=link(linked[-1].digest if linked else start, row)))
    return linked


ROWS = chained(
    [
        Row(
            0, 7.0 * step, step, 3 * step, 64 * step, 128 * step, 2.5 - 0.1 * step,
            {"accuracy": 0.25 + 0.01 * step, "f1": 0.5}, 0.1 * step, 0.2 * step, 2 * step,
            0.5 * step, f"{step:016x}",
        )
        for step in range(5)
    ]
)  # fmt: skip


def with_cell(row: Row, name: str, value: object) -> Row:
    if name in row.metrics:
        return row._replace(metrics={**row.metrics, name: value})  # type: ignore[dict-item]
    return row._replace(**{name: value})  # type: ignore[arg-type]


def test_a_history_as_it_was_written_is_whole() -> None:
    assert first_broken(ROWS, START) is None
    assert first_broken([], START) is None
    assert all(len(row.digest) == 16 for row in ROWS)
    assert first_broken(history_from_csv(history_to_csv(ROWS)), START) is None


@pytest.mark.parametrize("name", columns(ROWS[0]))
@pytest.mark.parametrize("place", range(len(ROWS)))
def test_a_changed_cell(name: str, place: int) -> None:
    old = ROWS[place].cell(name)
    new = f"{old}0" if isinstance(old, str) else old + 1  # type: ignore[operator]
    changed = [*ROWS[:place], with_cell(ROWS[place], name, new), *ROWS[place + 1 :]]
    assert first_broken(changed, START) == place


def test_the_last_bit_of_a_number_counts() -> None:
    changed = [*ROWS[:4], ROWS[4]._replace(loss=ROWS[4].loss + 2**-50)]
    assert first_broken(changed, START) == 4


def test_rows_that_changed_places_or_are_gone() -> None:
    a, b, c, d, e = ROWS
    assert first_broken([a, c, b, d, e], START) == 1
    assert first_broken([a, b, d, e], START) == 2
    assert first_broken([b, c, d, e], START) == 0
    assert first_broken([a, b, b, c, d, e], START) == 2


def test_a_metric_of_another_name() -> None:
    metrics = {"accuracy": 0.25, "f2": 0.5}
    assert first_broken([ROWS[0]._replace(metrics=metrics), *ROWS[1:]], START) == 0


@pytest.mark.parametrize(
    "start",
    [
        chain_start({"data": "d", "method": None}, seed=1),
        chain_start({"data": "e", "method": None}, seed=0),
        chain_start({"data": "d", "method": "m"}, seed=0),
    ],
)
def test_what_the_run_is_made_of_counts(start: str) -> None:
    assert first_broken(ROWS, start) == 0


def test_files_keep_the_chain_also_of_numbers_that_are_not_finite() -> None:
    text = history_to_csv(chained([ROWS[0], ROWS[1]._replace(loss=nan, variance=inf)]))
    assert first_broken(history_from_csv(text), START) is None
    assert first_broken(history_from_csv(text.replace("0.26", "0.75")), START) == 1


def test_histories_of_earlier_versions_have_no_digests() -> None:
    old = [row._replace(digest="", model_digest="", energy=None) for row in ROWS]
    text = history_to_csv(old)
    assert text.splitlines()[0].endswith("potential,contributed_steps")
    assert history_from_csv(text) == old
