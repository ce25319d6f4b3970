from __future__ import annotations

import math
from pathlib import Path

import pytest

from favano.report import paired
from favano.report.cells import cells, columns
from favano.report.table import over
from favano.results import collect

from .conftest import Writer


def test_numbers_by_hand(compared: Path) -> None:
    favano, fedavg, fedbuff, quafl = collect([compared])
    accuracy = over(run.accuracy for run in favano.runs)
    assert accuracy.mean == pytest.approx(0.75)
    assert accuracy.deviation == pytest.approx(0.1 / math.sqrt(2))
    assert accuracy.count == 2
    assert math.isnan(over(run.accuracy for run in fedbuff.runs).deviation)
    difference = paired(fedavg, favano)
    assert difference is not None
    assert difference.mean == pytest.approx(-0.2)  # -0.3 and -0.1
    assert difference.deviation == pytest.approx(0.2 / math.sqrt(2))
    assert difference.count == 2
    assert paired(fedbuff, favano) is None  # it stopped half way
    assert paired(quafl, favano) is None


def test_the_same_in_words(compared: Path) -> None:
    results = collect([compared])
    favano, fedavg, fedbuff, quafl = (cells(result, results[0]) for result in results)
    assert columns(results)["difference"] == "against FAVANO, points"
    assert favano == {
        "accuracy": "75.0 ± 7.1",
        "difference": "reference",
        "loss": "0.250 ± 0.071",
        "server_steps": "2",
        "local_steps": "10",
        "gigabits": "4",
        "energy": "–",
        "seeds": "2",
    }
    assert fedavg["difference"] == "−20.0 ± 14.1 (2)"
    assert fedbuff["accuracy"] == "90.0 ± –"
    assert fedbuff["seeds"] == "1 of 2"
    assert quafl == dict.fromkeys(favano, "–") | {"seeds": "0 of 2"}


def test_a_seed_that_reached_the_horizon_is_paired_though_others_did_not(
    tmp_path: Path, write: Writer
) -> None:
    write(
        tmp_path / "favano", {"algorithm": "favano"}, [[0.1, 0.2, 0.5], [0.1, 0.2, 0.6]], "complete"
    )
    write(tmp_path / "fedavg", {"algorithm": "fedavg"}, [[0.1, 0.2, 0.4], [0.1, 0.3]], "partial")
    favano, fedavg = collect([tmp_path])
    difference = paired(fedavg, favano)
    assert difference is not None
    assert difference.count == 1
    assert difference.mean == pytest.approx(-0.1)


@pytest.mark.parametrize("change", [{"dataset": "mnist"}, {"horizon": 10.0}])
def test_other_tasks_are_not_subtracted(
    tmp_path: Path, write: Writer, change: dict[str, object]
) -> None:
    write(tmp_path / "favano", {"algorithm": "favano"}, [[0.1, 0.2, 0.5]], "complete")
    write(tmp_path / "fedavg", {"algorithm": "fedavg", **change}, [[0.1, 0.2, 0.4]], "complete")
    favano, fedavg = collect([tmp_path])
    assert paired(fedavg, favano) is None


def test_one_result_has_no_column_of_differences(compared: Path) -> None:
    assert "difference" not in columns(collect([compared / "favano"]))


def test_a_loss_that_diverged_is_said_to_be_not_finite(tmp_path: Path, write: Writer) -> None:
    folder = write(tmp_path / "favano", {"algorithm": "favano"}, [[0.1, 0.2]], "complete")
    for file in ("history.csv", "summary.json"):
        text = (folder / file).read_text()
        (folder / file).write_text(text.replace("0.8", "nan" if file == "history.csv" else "NaN"))
    (result,) = collect([folder])
    assert cells(result, None)["loss"] == "not finite"
