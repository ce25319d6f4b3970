"""Table 1 by hand."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from favano.report.complexity import formula_sheet, number_sheets
from favano.studies.paper.table_1 import FLEETS, FORMULAS, NAMES, NOTE, write_table_1


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("table-1")
    write_table_1(path)
    return path


def rows(folder: Path) -> dict[tuple[str, str], dict[str, float]]:
    with (folder / "table.csv").open() as file:
        return {
            (row.pop("fleet"), row.pop("method")): {key: float(row[key]) for key in row}
            for row in csv.DictReader(file)
        }


def test_the_committed_table_is_what_the_code_makes(folder: Path) -> None:
    committed = rows(Path(__file__).parents[3] / "results" / "table-1")
    for key, row in rows(folder).items():
        assert row == pytest.approx(committed[key], rel=1e-4)


def test_every_method_on_every_fleet(folder: Path) -> None:
    assert set(rows(folder)) == {(fleet, method) for fleet in FLEETS for method in FORMULAS}
    assert set(NAMES) == set(FORMULAS)


def test_fedavg_by_hand(folder: Path) -> None:
    """At L = 2 and a target of 0.1, all else 1, n = 100, s = K = 20."""
    row = rows(folder)["non-iid-2/3-fast", "fedavg"]
    printed = (2 + 0.8 * 20) / 400 / 0.01 + 2**0.5 / 0.1**1.5 + 2 / 0.1
    corrected = 2 * (1 + 0.8 * 20) / 400 / 0.01 + 2 / 0.1**1.5 + 2 / 0.1
    assert row["printed_steps"] == pytest.approx(printed, rel=1e-5)
    assert row["corrected_steps"] == pytest.approx(corrected, rel=1e-5)
    assert row["corrected_time"] == pytest.approx(corrected * row["step_time"], rel=1e-4)


def test_a_server_step_takes_as_long_as_the_method_waits(folder: Path) -> None:
    table = rows(folder)
    for fleet in FLEETS:
        assert table[fleet, "favano"]["step_time"] == table[fleet, "quafl"]["step_time"] == 7
    assert table["non-iid-2/3-fast", "fedavg"]["step_time"] == pytest.approx(417.4, abs=0.1)
    assert table["non-iid-2/3-fast", "fedbuff"]["step_time"] == pytest.approx(6.43, abs=0.1)
    assert table["non-iid-1/9-fast", "fedbuff"]["step_time"] == pytest.approx(21.1, abs=0.4)


def test_formulas_that_are_corrected_have_other_numbers(folder: Path) -> None:
    for (_, method), row in rows(folder).items():
        same = row["printed_steps"] == row["corrected_steps"]
        assert same == (FORMULAS[method][1] == "")


def test_the_sheets(folder: Path) -> None:
    assert formula_sheet(FORMULAS, NAMES).rows[1][2] == "as printed"
    first, second = number_sheets(folder / "table.csv", NAMES, FLEETS, NOTE)
    assert first.title == "Time to the target, 2/3 fast"
    assert [row[0] for row in second.rows] == list(NAMES.values())
    assert first.rows[0][1:4] == ["417", "69.2", "91.7"]
