from __future__ import annotations

import json
from pathlib import Path

from favano.report import by_setting, write_page
from favano.report.palette import methods
from favano.report.shares import shares, staleness
from favano.results import collect

from .conftest import a_participation


def test_shares_by_hand(compared: Path) -> None:
    settings = by_setting(collect([compared]))
    text = shares(settings, methods(settings))
    assert "Shares of the fast / slow clients, 1 / 2 of them" in text
    rows = text.split('<tr role="row">')[2:]
    for cell in ("33.3 / 66.7", "1.00 / 1.00"):
        assert cell in rows[0]  # what would be fair
    for cell in ("60.0 / 40.0", "75.0 / 25.0", "<strong>33.3 / 66.7</strong>", "1.00 / 1.00"):
        assert cell in rows[1]  # FAVANO
    for cell in ("<strong>50.0 / 50.0</strong>", "1.50 / 0.75"):
        assert cell in rows[2]  # FedAvg
    assert "fast clients carry 50.0 % of the weight, fair is 33.3 %" in text
    assert "sample" not in text


def test_a_verdict_is_quoted(compared: Path) -> None:
    path = compared / "fedavg" / "summary.json"
    words = "favours fast clients: 50.0 % of the model [48.0, 52.0] is theirs, fair is 33.3 %"
    audit = {"seed": 0, "verdict": words, "confidence": 0.95, "fair": 1 / 3}
    audit |= {"speeds": [], "mean_step_time": [], "weight": []}
    path.write_text(json.dumps({**json.loads(path.read_text()), "audit": audit}))
    settings = by_setting(collect([compared]))
    text = shares(settings, methods(settings))
    assert f"<strong>FedAvg</strong> {words}</figcaption>" in text
    assert "<strong>FAVANO</strong> fast clients carry 33.3 %" in text


def test_staleness_in_short(compared: Path) -> None:
    settings = by_setting(collect([compared]))
    assert "mean 0.9, median 1, largest 2" in staleness(settings, methods(settings))


def test_a_sample_is_said_to_be_one(compared: Path) -> None:
    many = a_participation() | {"clients": 100_000}
    (compared / "favano" / "participation.json").write_text(json.dumps(many))
    settings = by_setting(collect([compared]))
    assert "an even sample of 3 of the 100,000 clients" in shares(settings, methods(settings))


def test_nothing_recorded_is_said(compared: Path) -> None:
    settings = by_setting(collect([compared / "fedbuff"]))
    assert "Not recorded in these result folders." in shares(settings, methods(settings))


def test_weights_that_are_not_finite_do_not_break_the_page(compared: Path, tmp_path: Path) -> None:
    record = json.loads((compared / "favano" / "participation.json").read_text())
    record["listed"]["weight"][1] = record["speeds"][0]["weight"] = None
    (compared / "favano" / "participation.json").write_text(json.dumps(record))
    write_page(collect([compared]), tmp_path / "page.html", "Not finite")
    page = (tmp_path / "page.html").read_text()
    assert "not finite" not in page
    assert page.count('data-chart="clients"') == 1  # FedAvg's; FAVANO has no weights to draw
