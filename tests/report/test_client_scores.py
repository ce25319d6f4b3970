"""Whom the model serves: a table for all, a plot for those whose weights are known."""

from __future__ import annotations

from pathlib import Path

import pytest

from favano.report import by_setting, write_page
from favano.report.client_scores import client_scores, points
from favano.report.palette import methods
from favano.results import collect

from .conftest import add_served


def test_by_hand(compared: Path) -> None:
    add_served(compared / "favano", 0.9)
    add_served(compared / "fedbuff", 0.8)  # has no participation.json
    settings = by_setting(collect([compared]))
    text = client_scores(settings, methods(settings))
    assert "Mean over clients: accuracy, %, on their own samples" in text
    head, *rows = text.split('<tr role="row">')[1:]
    for word in ("all clients", "fast", "slow", "worst tenth"):
        assert f">{word}</th>" in head
    cells = [row.split('<td role="cell"')[1:] for row in rows]
    values = [[cell.split(">")[1].split("<")[0] for cell in row] for row in cells]
    assert values == [["73.3", "90.0", "65.0", "50.0"], ["70.0", "80.0", "65.0", "50.0"]]
    assert text.count("<figure") == 1
    assert "<strong>FAVANO</strong> fast clients 90.0 %, slow clients 65.0 %</figcaption>" in text


def test_clients_that_both_files_list(compared: Path) -> None:
    add_served(compared / "favano", 0.9)
    favano, fedavg, *_ = collect([compared])
    assert favano.client_scores is not None
    columns = points(favano)
    assert columns is not None
    assert (columns["client"], columns["speed"]) == ([0, 1, 2], [1, 0, 1])
    assert columns["weight"] == pytest.approx([1.0, 1.0, 1.0])
    assert columns["score"] == pytest.approx([50, 90, 80])
    assert points(fedavg) is None


def test_nothing_recorded_has_no_section(compared: Path, tmp_path: Path) -> None:
    write_page(collect([compared]), tmp_path / "page.html", "Earlier results")
    assert "#served" not in (tmp_path / "page.html").read_text()
    add_served(compared / "favano")
    write_page(collect([compared]), tmp_path / "page.html", "Results")
    assert '<a href="#served">Whom it serves</a>' in (tmp_path / "page.html").read_text()
