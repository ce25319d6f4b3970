"""`--live`: the page has all evaluations, ends with the run, and changes nothing."""

from __future__ import annotations

import json
import re
from math import inf
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import pytest
import torch
from torch import nn

from favano import Fleet, Problem, simulate
from favano.cli import training
from favano.cli.shell import say
from favano.errors import BadInput
from favano.records import history_from_csv
from favano.report import live as page_of
from favano.run import api
from favano.run import live_page as live
from tests.cli.test_cli import SHORT, Program, favano
from tests.cli.test_resume import OFTEN, interrupted

__all__ = ["favano"]


class Visitor:
    """Asks for the page after every evaluation."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.addresses: list[str] = []
        self.lines: list[dict[str, int]] = []  # evaluations of each method, at each visit
        hear = live.RunningResults.hear

        def visit(results: live.RunningResults, made: Any) -> None:
            hear(results, made)
            with urlopen(self.addresses[-1], timeout=60) as answer:
                text = answer.read().decode()
            data = re.search(r'id="results">(.*?)</script>', text, re.DOTALL)
            assert data is not None
            document = json.loads(data.group(1))
            names = [method["title"] for method in document["methods"]]
            (setting,) = document["settings"]
            self.lines.append({names[r["method"]]: sum(r["seeds"]) for r in setting["results"]})

        monkeypatch.setattr(live.RunningResults, "hear", visit)

        def note(sentence: str) -> None:
            self.note(sentence)
            say(sentence)

        monkeypatch.setattr(training, "say", note)
        monkeypatch.setattr(page_of, "_PERIOD", 0.0)
        monkeypatch.setattr(page_of, "_SHARE", inf)

    def note(self, sentence: str) -> None:
        self.addresses += re.findall(r"http://\S+", sentence)


def test_a_comparison_is_followed_and_the_page_ends_with_it(
    favano: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = ["compare", *SHORT, "--algorithms", "favano,fedavg", "--seeds", "2"]
    assert favano(*flags, "--out", "plain")[0] == 0
    visitor = Visitor(monkeypatch)
    assert favano(*flags, "--live", "--out", "c")[0] == 0
    counts = [sum(line.values()) for line in visitor.lines]
    assert counts[:6] == [1, 2, 3, 4, 5, 6]
    rows = [
        row
        for name in ("favano", "fedavg")
        for row in history_from_csv((tmp_path / "c" / name / "history.csv").read_text())
    ]
    assert len(counts) == len(rows)
    assert counts[-1] == sum(row.time <= 140 for row in rows)  # pages end at the horizon
    for name in ("favano", "fedavg"):
        history = (tmp_path / "c" / name / "history.csv").read_bytes()
        assert history == (tmp_path / "plain" / name / "history.csv").read_bytes()
    with pytest.raises(URLError):
        urlopen(visitor.addresses[-1])
    assert 'id="live"' not in (tmp_path / "c" / "report.html").read_text()


def test_a_run_that_goes_on_shows_what_was_there_before(
    favano: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted(favano, monkeypatch, "run", *OFTEN, "--live", "--out", "r")
    visitor = Visitor(monkeypatch)
    code, _, err = favano("run", *OFTEN, "--live", "--out", "r")
    assert code == 0
    assert "goes on at time" in err
    rows = (tmp_path / "r" / "history.csv").read_text().count("\n") - 1
    assert visitor.lines[-1] == {"FAVANO": rows}
    assert "favano: report: r/report.html\n" in err
    assert (tmp_path / "r" / "report.html").exists()


def test_a_page_that_cannot_be_served_stops_no_run(
    favano: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_of, "_HOST", "192.0.2.1")  # no address of this machine
    code, _, err = favano("run", *SHORT, "--live", "--out", "r")
    assert code == 0
    assert "favano: live: no page can be served (" in err


def test_a_cluster_has_no_live_page(favano: Program) -> None:
    code, _, err = favano("run", *SHORT, "--live", "--cluster", "auto")
    assert (code, err.startswith("favano: live=True: listens in this process")) == (2, True)


def test_a_program_has_the_page_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """With own data."""
    visitor = Visitor(monkeypatch)
    monkeypatch.setattr(api, "notice", visitor.note)
    x, y = torch.randn(120, 4), torch.randint(0, 2, (120,))
    problem = Problem(nn.Linear(4, 2), train=(x, y), test=(x, y), split="iid")
    fleet = Fleet(clients=4)
    simulate("favano", problem, fleet, selected=2, horizon=70, evaluate_every=35, live=True)
    assert visitor.lines == [{"FAVANO": 1}, {"FAVANO": 2}, {"FAVANO": 3}]
    with pytest.raises(URLError):
        urlopen(visitor.addresses[-1])


def test_the_page_of_a_program_listens_here() -> None:
    with pytest.raises(BadInput, match="live=True: listens in this process"):
        simulate(live=True, cluster="auto")
