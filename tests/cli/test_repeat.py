"""The same command twice: what is complete stays, and is not trained again."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from shutil import rmtree

import pytest

from favano.cli import demo
from favano.planning.comparison import comparison
from favano.run.progress import ProgressBar
from favano.specification.spec import Spec
from tests.bright_rows import write_bright_rows
from tests.cli.test_cli import SHORT, Program, favano

__all__ = ["favano"]

DONE = "favano: already done: {} holds a run with these settings; --force repeats it\n"


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


class Trained:
    """Which methods were trained."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.names: list[str] = []
        advance = ProgressBar.advance

        def hear(progress: ProgressBar, label: str, steps: int, time: float) -> None:
            name = label.partition(",")[0]
            if name not in self.names:
                self.names.append(name)
            advance(progress, label, steps, time)

        monkeypatch.setattr(ProgressBar, "advance", hear)


def press_ctrl_c(monkeypatch: pytest.MonkeyPatch, updates: int = 5) -> None:
    heard: list[float] = []

    def advance(self: ProgressBar, label: str, steps: int, time: float) -> None:
        heard.append(time)
        if len(heard) == updates:
            raise KeyboardInterrupt

    monkeypatch.setattr(ProgressBar, "advance", advance)


def test_a_finished_run_is_shown_and_not_trained_again(
    favano: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = favano("run", *SHORT, "--out", "r")
    before = contents(tmp_path / "r")
    trained = Trained(monkeypatch)
    code, out, err = favano("run", *SHORT, "--out", "r")
    assert (code, out, err) == (0, first[1], DONE.format("r"))
    code, out, err = favano("run", *SHORT, "--out", "r", "--json")
    document, summary = json.loads(out), json.loads((tmp_path / "r" / "summary.json").read_text())
    assert (code, document["runs"], err) == (0, summary["runs"], DONE.format("r"))
    assert document["status"] == "complete"
    assert (document["spec"]["algorithm"], document["spec"]["selected"]) == ("favano", 3)
    assert "concurrency" not in document["spec"]  # of other methods
    assert trained.names == []
    assert contents(tmp_path / "r") == before
    code, out, err = favano("run", *SHORT, "--out", "r", "--force")
    assert (code, out, err) == (0, first[1], "")
    assert trained.names == ["favano"]


def test_a_result_of_other_data_is_not_replaced(favano: Program, tmp_path: Path) -> None:
    data = ["--dataset", "d", "--split", "iid", "--batch-size", "8", "--learning-rate", "1"]
    run = ["run", *data, "--model", "perceptron", "--clients", "4", "--selected", "2", "--out", "r"]
    write_bright_rows(tmp_path / "d", 4, train=60, test=20)
    assert favano(*run, "--horizon", "50")[0] == 0
    before = contents(tmp_path / "r")
    rmtree(tmp_path / "d")
    write_bright_rows(tmp_path / "d", 4, train=80, test=20)
    code, _, err = favano(*run, "--horizon", "90")
    assert code == 2
    assert err.endswith("favano: out=r: already holds a run of other data; choose a new folder\n")
    assert contents(tmp_path / "r") == before
    assert favano(*run, "--horizon", "90", "--force")[0] == 0
    assert contents(tmp_path / "r") != before


def test_showing_a_finished_run_does_not_load_torch(favano: Program, tmp_path: Path) -> None:
    assert favano("run", *SHORT, "--out", "r")[0] == 0
    arguments = ["run", *SHORT, "--out", "r"]
    program = (
        "import sys\n"
        "from favano.cli import main\n"
        f"sys.argv[1:] = {arguments!r}\n"
        "try:\n    main()\n"
        "except SystemExit as end:\n    assert not end.code, end.code\n"
        "assert 'torch' not in sys.modules\n"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("force", [False, True])
def test_ctrl_c_does_not_destroy_a_complete_result(
    force: bool, favano: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert favano("run", *SHORT, "--out", "r")[0] == 0
    before = contents(tmp_path / "r")
    press_ctrl_c(monkeypatch)
    code, out, err = favano("run", *SHORT, "--out", "r", *(["--force"] if force else []))
    assert (tmp_path / "r" / "resume.json").exists() == force
    (tmp_path / "r" / "resume.json").unlink(missing_ok=True)
    assert contents(tmp_path / "r") == before
    if force:
        assert (code, out) == (130, "")
        assert err == "favano: interrupted; r keeps its earlier complete result\n"
    else:
        assert (code, err) == (0, DONE.format("r"))


def test_compare_trains_the_methods_that_are_not_done(
    favano: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = ["compare", *SHORT, "--out", "c", "--json"]
    assert favano(*flags, "--algorithms", "favano,fedavg")[0] == 0
    before = contents(tmp_path / "c" / "fedavg")
    trained = Trained(monkeypatch)
    code, out, err = favano(*flags, "--algorithms", "favano,quafl,fedavg")
    assert (code, trained.names) == (0, ["quafl"])
    assert err == DONE.format("c/favano") + DONE.format("c/fedavg")
    assert [run["algorithm"] for run in json.loads(out)["runs"]] == ["favano", "quafl", "fedavg"]
    assert contents(tmp_path / "c" / "fedavg") == before
    page = (tmp_path / "c" / "report.html").read_text()
    assert "<h1>FAVANO, QuAFL and FedAvg on digits</h1>" in page
    # A method gives the same numbers alone, beside others, and again.
    together = contents(tmp_path / "c")
    assert favano(*flags, "--algorithms", "favano,quafl,fedavg", "--force")[0] == 0
    assert trained.names == ["quafl", "favano", "fedavg"]
    for name in ("favano", "quafl", "fedavg"):
        file = f"{name}/history.csv"
        assert contents(tmp_path / "c")[file] == together[file]


def test_an_interrupted_repetition_keeps_every_complete_method(
    favano: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = ["compare", *SHORT, "--out", "c", "--algorithms", "favano,fedavg"]
    assert favano(*flags)[0] == 0
    before = {name: contents(tmp_path / "c" / name) for name in ("favano", "fedavg")}
    press_ctrl_c(monkeypatch)
    code, _, err = favano(*flags, "--force")
    assert code == 130
    kept = "c/favano and c/fedavg keep their earlier complete result"
    assert err.startswith(f"favano: interrupted; {kept}\n")
    assert {name: contents(tmp_path / "c" / name) for name in before} == before
    assert ", partial" not in (tmp_path / "c" / "report.html").read_text().partition("</h1>")[0]


def test_a_partial_result_is_run_again(
    favano: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        press_ctrl_c(patch)
        assert favano("run", *SHORT, "--out", "r")[0] == 130
    code, _, err = favano("run", *SHORT, "--out", "r")
    assert (code, err) == (0, "")
    assert json.loads((tmp_path / "r" / "summary.json").read_text())["status"] == "complete"


def test_demo_twice(favano: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def short(values: dict[str, object], methods: list[dict[str, object]]) -> list[Spec]:
        keys = {**values, "clients": 10, "selected": 3, "horizon": 70.0, "seeds": 1}
        return comparison(keys, methods[:2])

    monkeypatch.setattr(demo, "comparison", short)
    first = favano("demo", "--out", "d")
    code, out, err = favano("demo", "--out", "d")
    assert (code, out) == (0, first[1])
    assert err == DONE.format("d/favano") + DONE.format("d/fedavg")
    code, _, err = favano("demo", "--out", "d", "--force")
    assert (code, err) == (0, "")


def test_a_key_can_be_changed_in_a_specification_that_was_written(
    favano: Program, tmp_path: Path
) -> None:
    assert favano("run", *SHORT, "--out", "r")[0] == 0
    assert "concurrency" not in (tmp_path / "r" / "spec.toml").read_text()
    code, _, err = favano("run", "r/spec.toml", "--selected", "2", "--out", "other")
    assert (code, err) == (0, "")
