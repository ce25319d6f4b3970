from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path

from favano.report import by_setting
from favano.report.palette import methods
from favano.report.specifications import specifications
from favano.results import collect
from favano.specification.config import keys_from_toml


def test_the_whole_specification_is_there_to_be_copied(compared: Path) -> None:
    settings = by_setting(collect([compared]))
    text = specifications(settings, methods(settings))
    blocks = [unescape(re.sub("<[^>]*>", "", b)) for b in re.findall(r"<pre.*?</pre>", text, re.S)]
    assert blocks[0] == "favano run --algorithm favano"
    assert keys_from_toml(blocks[1]) == settings[0].results[0].keys


def test_what_differs_is_marked(compared: Path) -> None:
    settings = by_setting(collect([compared / "favano", compared / "fedavg"]))
    text = specifications(settings, methods(settings))
    marked = set(re.findall("<mark>(.*?)</mark>", text))
    lines = {unescape(line).strip() for line in marked}
    assert lines == {'{ name = "favano" },', '{ name = "fedavg" },'}


def test_a_result_without_command_says_so(compared: Path) -> None:
    (compared / "favano" / "summary.json").unlink()
    settings = by_setting(collect([compared / "favano"]))
    assert "No command is recorded." in specifications(settings, methods(settings))


def test_times_of_runs_that_overlap_are_not_added_up(compared: Path) -> None:
    path = compared / "favano" / "summary.json"
    summary = json.loads(path.read_text())
    summary["runs"][1]["wall_seconds"] = 2.25
    path.write_text(json.dumps(summary))
    text = specifications(settings := by_setting(collect([compared])), methods(settings))
    assert "folder favano; its 2 runs took 1.5 to 2.2 seconds each and overlap in time." in text
    assert "folder fedbuff; the run took 1.5 seconds." in text
    assert "seconds of computing" not in text


def test_what_it_was_trained_with_is_said(compared: Path) -> None:
    path = compared / "favano" / "summary.json"
    said = {"torch": "2.13.0", "kernels": "channels-last"}
    path.write_text(json.dumps(json.loads(path.read_text()) | said))
    text = specifications(settings := by_setting(collect([compared])), methods(settings))
    assert "with PyTorch 2.13.0, kernels channels-last into folder favano" in text
    assert text.count("kernels channels-last") == 1
