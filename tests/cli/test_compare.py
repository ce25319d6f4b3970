"""`favano compare`: variants of one method from a file, and a comparison that is cut short."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from favano.run.progress import ProgressBar
from tests.cli.test_cli import SHORT, Program, favano

__all__ = ["favano"]


def test_an_interrupted_comparison_has_its_page(
    favano: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[float] = []

    def advance(self: ProgressBar, label: str, steps: int, time: float) -> None:
        heard.append(time)
        if len(heard) == 11:
            raise KeyboardInterrupt

    monkeypatch.setattr(ProgressBar, "advance", advance)
    flags = [*SHORT, "--evaluate-every", "7", "--algorithms", "favano,fedavg", "--out", "c"]
    code, out, err = favano("compare", *flags)
    assert (code, out) == (130, "")
    assert err.startswith("favano: interrupted; partial results are in c\n")
    assert "report of the results so far: c/report.html" in err
    page = (tmp_path / "c" / "report.html").read_text()
    assert "<h1>FAVANO and FedAvg on digits, partial</h1>" in page
    assert " of 2 results not complete." in page[: page.index("</header>")]


FILE = """
[fleet]
clients = 10

[clock]
selected = 3
waiting_time = 2.0

[training]
local_steps = 4

[run]
horizon = 140
evaluate_every = 70

[[method]]
name = "favano"

[[method]]
name = "fedbuff"
label = "FedBuff, one by one"
buffer = 1

[[method]]
name = "fedbuff"
buffer_mode = "block"
"""


def test_one_file_is_compared_and_run(favano: Program, tmp_path: Path) -> None:
    (tmp_path / "runs.toml").write_text(FILE)
    code, out, err = favano("compare", "runs.toml", "--out", "c", "--json")
    assert (code, err) == (0, "")
    document = json.loads(out)
    names = ["favano", "FedBuff, one by one", "fedbuff"]
    assert [run["algorithm"] for run in document["runs"]] == names
    assert document["spec"]["algorithms"] == names
    folders = sorted(path.name for path in (tmp_path / "c").iterdir())
    assert folders == ["FedBuff-one-by-one", "favano", "fedbuff", "report.html"]
    page = (tmp_path / "c" / "report.html").read_text()
    assert "FedBuff, one by one" in page
    # A run of the same file is the first method's, or that of the one which is named.
    for arguments, folder in (
        ((), "favano"),
        (("--algorithm", "FedBuff, one by one"), "FedBuff-one-by-one"),
    ):
        code, _, err = favano("run", "runs.toml", *arguments, "--out", f"c/{folder}")
        done = f"favano: already done: c/{folder} holds a run with these settings; "
        assert (code, err) == (0, f"{done}--force repeats it\n")


def test_variants_and_settings_from_flags(favano: Program, tmp_path: Path) -> None:
    (tmp_path / "runs.toml").write_text(FILE)
    settings = ("--set", "FedBuff, one by one.buffer=2", "--set", "fedbuff.staleness=constant")
    code, _, err = favano("compare", "runs.toml", *settings, "--out", "c", "--json")
    assert (code, err) == (0, "")
    assert "buffer = 2" in (tmp_path / "c" / "FedBuff-one-by-one" / "spec.toml").read_text()
    assert 'staleness = "constant"' in (tmp_path / "c" / "fedbuff" / "spec.toml").read_text()


def test_some_of_the_methods_of_a_file_by_their_labels(favano: Program, tmp_path: Path) -> None:
    (tmp_path / "runs.toml").write_text(FILE.replace("FedBuff, one by one", "one"))
    named = ("--algorithms", "one,fedavg")
    code, out, err = favano("compare", "runs.toml", *named, "--out", "c", "--json")
    assert (code, err) == (0, "")
    assert [run["algorithm"] for run in json.loads(out)["runs"]] == ["one", "fedavg"]
    assert "buffer = 1" in (tmp_path / "c" / "one" / "spec.toml").read_text()
    # The file's waiting time is for FAVANO; one that is asked for must be of use.
    code, _, err = favano("compare", "runs.toml", *named, "--waiting-time", "3", "--out", "d")
    assert code == 2
    assert "waiting_time=3.0: is a key of methods with polls, which fedbuff does not have" in err


def test_no_label_is_the_name_of_a_file_that_is_written(favano: Program, tmp_path: Path) -> None:
    """While the comparison is at work, or in the end."""
    table = '[[method]]\nname = "fedavg"\nlabel = "{}"\n'
    written: set[str] = set()
    (tmp_path / "runs.toml").write_text(table.format("A"))

    def look(*_: object) -> None:
        written.update(path.name for path in (tmp_path / "c").iterdir())

    favano.monkeypatch.setattr(ProgressBar, "advance", look)
    assert favano("compare", "runs.toml", *SHORT, "--out", "c")[0] == 0
    look()
    assert written == {"A", ".lock", "report.html", "resume.json"}
    for name in written - {"A", ".lock"}:  # no folder begins with a dot
        (tmp_path / "runs.toml").write_text(table.format(name))
        code, out, err = favano("compare", "runs.toml", *SHORT, "--out", "d")
        assert (code, out) == (2, "")
        assert err.startswith(f"favano: label={name}: its folder would be named {name}, which is")
        assert not (tmp_path / "d").exists()


def test_a_label_names_a_run(favano: Program, tmp_path: Path) -> None:
    code, out, err = favano("run", *SHORT, "--label", "Mine, as ever", "--out", "r")
    assert (code, err) == (0, "")
    assert "Mine, as ever" in out
    summary = json.loads((tmp_path / "r" / "summary.json").read_text())
    assert (summary["title"], summary["runs"][0]["algorithm"]) == ("FAVANO", "Mine, as ever")
    code, _, err = favano("run", *SHORT, "--out", "r")
    assert code == 2
    assert "already holds another run (differs in label)" in err
