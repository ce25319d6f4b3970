from __future__ import annotations

from pathlib import Path

from favano.report import by_setting
from favano.report.final_tables import differences, final_tables, overview
from favano.report.palette import methods
from favano.results import collect

from .conftest import Writer


def test_differences_against_every_method_with_numbers(compared: Path) -> None:
    (setting,) = by_setting(collect([compared]))
    assert differences(setting) == {
        "FAVANO": ["reference", "−20.0 ± 14.1 (2)", "–", "–"],
        "FedAvg": ["+20.0 ± 14.1 (2)", "reference", "–", "–"],
        "FedBuff": ["–", "–", "reference", "–"],
    }


def test_one_setting_needs_no_overview(compared: Path) -> None:
    settings = by_setting(collect([compared]))
    assert overview(settings, methods(settings)) == ""
    assert final_tables(settings, methods(settings)).count("<table") == 2  # and to a target


def test_an_overview_of_settings_shows_holes(tmp_path: Path, write: Writer) -> None:
    for split, algorithm in (("iid", "favano"), ("iid", "fedavg"), ("two-class", "favano")):
        folder = tmp_path / split / algorithm
        write(folder, {"algorithm": algorithm, "split": split}, [[0.1, 0.2, 0.3]], "complete")
    settings = by_setting(collect([tmp_path]))
    text = overview(settings, methods(settings))
    assert text.index("split iid") < text.index("split two-class")
    fedavg = text.split('<tr role="row">')[3]
    assert 'data-label="split iid">30.0 ± –</td>' in fedavg
    assert 'data-label="split two-class">–</td>' in fedavg
    assert final_tables(settings, methods(settings)).count("<table") == 2 + 1  # one to a target


def test_an_overview_of_many_settings_is_moved_sideways(tmp_path: Path, write: Writer) -> None:
    for horizon in range(1000, 8000, 1000):
        spec = {"algorithm": "favano", "horizon": float(horizon)}
        write(tmp_path / str(horizon), spec, [[0.1, 0.2]], "complete")
    settings = by_setting(collect([tmp_path]))
    text = overview(settings, methods(settings))
    assert text.startswith('<div class="wide" role="region" tabindex="0" aria-label="Accuracy')
    assert "horizon 7,000" in text
    assert overview(settings[:6], methods(settings)).startswith("<table")
