"""A folder of ledgers as sheets, a page and pictures."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from favano.errors import BadInput
from favano.report.figure_style import check_matplotlib, spread_out
from favano.report.figures import read_lines
from favano.report.reproduction import (
    document,
    draw,
    facts,
    read_facts,
    readme,
    sheets,
    write_readme,
)
from favano.studies.request import Request
from tests.run.small import SMALL, reproduce_small


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("out")
    reproduce_small(out, Request(seeds=2, readings=("none", "free")))
    return out / "small"


def test_every_ledger_gives_its_sheets(folder: Path) -> None:
    titles = [sheet.title for sheet in sheets(folder, SMALL)]
    assert titles == ["Digits", "FAVANO's lead", "Other readings", "FAVANO's lead: shards"]
    first = sheets(folder, SMALL)[0]
    assert [row[0] for row in first.rows] == ["FedAvg", "FAVANO"]
    assert first.rows[1][1] == "90.0 ± 2.0"
    assert "±" in first.rows[1][2]


def test_the_page_names_command_cost_and_constants(folder: Path) -> None:
    about = facts(folder, SMALL, "favano reproduce small", "12 W", 0.1, {"horizon": "30"})
    text = write_readme(folder, SMALL, about).read_text()
    assert "`favano reproduce small`" in text
    assert "16 runs took" in text
    assert "g CO2e" in text
    assert "10 % of the simulated time and of the data" in text
    assert "| FAVANO without reweighting |" in text
    assert about["not the paper's"] == "horizon 30, in all runs alike."
    assert read_facts(folder) == about
    assert readme(folder, SMALL, read_facts(folder)) == text
    assert not {"scale", "not the paper's"} & facts(folder, SMALL, "", "", 1.0, {}).keys()


@pytest.mark.slow
def test_pictures_as_png_and_pdf_equal_when_drawn_again(folder: Path) -> None:
    paths = draw(folder, SMALL)
    assert {path.suffix for path in paths} == {".png", ".pdf"}
    before = [path.read_bytes() for path in paths]
    assert all(data.startswith((b"\x89PNG", b"%PDF")) for data in before)
    draw(folder, SMALL)
    assert [path.read_bytes() for path in paths] == before


def test_curves_are_read_by_line(folder: Path) -> None:
    lines = read_lines(folder / "curves.csv")
    assert [(line.algorithm, line.seeds) for line in lines] == [("fedavg", 2), ("favano", 2)] * 2
    assert list(lines[1].values["time"]) == [0, 35, 70, 105, 140]


def test_the_document_has_tables_and_runs(folder: Path) -> None:
    content = document(folder, SMALL)
    assert set(content) == {"title", "folder", "tables", "runs"}
    runs = content["runs"]
    assert isinstance(runs, list)
    assert len(runs) == 16
    assert {"algorithm", "seed", "accuracy", "energy_wh", "digest"} <= set(runs[0])


def test_an_empty_folder_is_all_missing(tmp_path: Path) -> None:
    (first, second) = sheets(tmp_path, SMALL)
    assert first.rows[0][2] == "missing"
    assert second.rows == [["FAVANO − FedAvg", "missing", "missing"]]


def test_damaged_ledgers_are_named(tmp_path: Path) -> None:
    (tmp_path / "runs.csv").write_text("reading,algorithm\npaper,favano\n")
    with pytest.raises(BadInput, match=r"runs.csv: is damaged"):
        sheets(tmp_path, SMALL)


def test_figures_without_matplotlib_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(BadInput, match=r"needs pip install 'favano\[print\]'"):
        check_matplotlib()


def test_labels_are_pushed_apart_and_keep_their_order() -> None:
    placed = spread_out([0.1, 0.11, 0.12, 0.9], 0.05)
    assert placed == pytest.approx([0.06, 0.11, 0.16, 0.9])
    assert spread_out([], 0.1) == []
