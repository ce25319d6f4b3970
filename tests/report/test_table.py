from __future__ import annotations

import math
from pathlib import Path

import pytest

from favano.report import collect, final_lines
from favano.report.cells import cells, columns

from .conftest import Writer


def test_numbers_by_hand(compared: Path) -> None:
    favano, fedavg, fedbuff, quafl = final_lines(collect([compared]))
    assert favano.accuracy is not None
    assert favano.accuracy.mean == pytest.approx(0.75)
    assert favano.accuracy.deviation == pytest.approx(0.1 / math.sqrt(2))
    assert favano.loss is not None
    assert favano.loss.mean == pytest.approx(0.25)
    assert favano.gigabits is not None
    assert favano.gigabits.mean == 4.0
    assert favano.local_steps is not None
    assert favano.local_steps.mean == 10.0
    assert favano.difference is None
    difference = fedavg.difference
    assert difference is not None
    assert difference.mean == pytest.approx(-0.2)  # -0.3 and -0.1
    assert difference.deviation == pytest.approx(0.2 / math.sqrt(2))
    assert (difference.pairs, difference.higher, difference.lower) == (2, 0, 2)
    assert fedbuff.accuracy is not None
    assert math.isnan(fedbuff.accuracy.deviation)
    assert fedbuff.difference is None  # it stopped half way
    assert quafl.accuracy is None


def test_the_same_in_words(compared: Path) -> None:
    results = collect([compared])
    table = [cells(line, results[0]) for line in final_lines(results)]
    assert columns(results)["difference"] == "against FAVANO, points"
    assert table[0]["accuracy"] == "75.0 ± 7.1"
    assert table[0]["difference"] == "reference"
    assert table[1]["difference"] == "−20.0 ± 14.1 (2)"
    assert table[2]["accuracy"] == "90.0 ± –"
    assert table[2]["seeds"] == "1 of 2"
    assert table[3]["accuracy"] == table[3]["gigabits"] == "–"


def test_a_seed_that_reached_the_horizon_is_paired_though_others_did_not(
    tmp_path: Path, write: Writer
) -> None:
    write(
        tmp_path / "favano", {"algorithm": "favano"}, [[0.1, 0.2, 0.5], [0.1, 0.2, 0.6]], "complete"
    )
    write(tmp_path / "fedavg", {"algorithm": "fedavg"}, [[0.1, 0.2, 0.4], [0.1, 0.3]], "partial")
    difference = final_lines(collect([tmp_path]))[1].difference
    assert difference is not None
    assert difference.pairs == 1
    assert difference.mean == pytest.approx(-0.1)


@pytest.mark.parametrize("change", [{"dataset": "mnist"}, {"horizon": 10.0}])
def test_other_tasks_are_not_subtracted(
    tmp_path: Path, write: Writer, change: dict[str, object]
) -> None:
    write(tmp_path / "favano", {"algorithm": "favano"}, [[0.1, 0.2, 0.5]], "complete")
    write(tmp_path / "fedavg", {"algorithm": "fedavg", **change}, [[0.1, 0.2, 0.4]], "complete")
    assert final_lines(collect([tmp_path]))[1].difference is None


def test_one_result_has_no_column_of_differences(compared: Path) -> None:
    assert "difference" not in columns(collect([compared / "favano"]))


def test_a_loss_that_diverged_is_said_to_be_not_finite(tmp_path: Path, write: Writer) -> None:
    folder = write(tmp_path / "favano", {"algorithm": "favano"}, [[0.1, 0.2]], "complete")
    for file in ("history.csv", "summary.json"):
        text = (folder / file).read_text()
        (folder / file).write_text(text.replace("0.8", "nan" if file == "history.csv" else "NaN"))
    results = collect([folder])
    assert cells(final_lines(results)[0], None)["loss"] == "not finite"
