"""`favano resume`, and commands that are given again: what goes on, and what is refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from favano.records.resumption import RESUME
from tests.cli.test_cli import SHORT, Program, favano
from tests.cli.test_repeat import Trained, contents, press_ctrl_c
from tests.forks import FORKS

__all__ = ["favano"]

OFTEN = [*SHORT, "--kernels", "native", "--checkpoint-every", "0", "--evaluate-every", "20"]
PARTIAL = "favano: interrupted; partial results are in {}\n"


def same(folder: Path, other: Path) -> None:
    for name in ("history.csv", "model.safetensors", "participation.json", "spec.toml"):
        assert (folder / name).read_bytes() == (other / name).read_bytes(), name


def interrupted(
    favano: Program, monkeypatch: pytest.MonkeyPatch, *arguments: str, updates: int = 10
) -> None:
    with monkeypatch.context() as patch:
        press_ctrl_c(patch, updates)
        assert favano(*arguments)[0] == 130


def test_a_run_goes_on_by_resume_and_by_repeating(
    favano: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert favano("run", *OFTEN, "--out", "whole")[0] == 0
    for again in (["resume", "r"], ["run", *OFTEN, "--out", "r2"]):
        folder = again[-1]
        interrupted(favano, monkeypatch, "run", *OFTEN, "--out", folder)
        assert json.loads((tmp_path / folder / RESUME).read_text())["out"] == folder
        code, out, err = favano(*again)
        assert (code, err) == (0, "favano: goes on at time 56 of 140\n")
        assert out.endswith(f"Results: {folder}\n")
        same(tmp_path / "whole", tmp_path / folder)
        assert not (tmp_path / folder / RESUME).exists()
        command = json.loads((tmp_path / folder / "summary.json").read_text())["command"]
        assert command.startswith("favano run ")
    assert favano("resume", "r") == (0, "", "favano: already done: r\n")


def test_a_comparison_goes_on_from_anywhere(
    favano: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In another working directory, in a folder that was renamed."""
    flags = ["compare", *OFTEN, "--algorithms", "favano,fedavg"]
    assert favano(*flags, "--out", "whole")[0] == 0
    interrupted(favano, monkeypatch, *flags, "--out", "c")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "c").rename(tmp_path / "elsewhere" / "d")
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert favano("resume", "d")[0] == 0
    assert not (tmp_path / "elsewhere" / "d" / RESUME).exists()
    for name in ("favano", "fedavg"):
        same(tmp_path / "whole" / name, tmp_path / "elsewhere" / "d" / name)
    assert not (tmp_path / "c").exists()


def test_force_begins_anew_and_resume_goes_on_with_it(
    favano: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert favano("run", *OFTEN, "--out", "r")[0] == 0
    before = contents(tmp_path / "r")
    for _ in range(2):  # nothing is said of checkpoints
        interrupted(favano, monkeypatch, "run", *OFTEN, "--out", "r", "--force")
    assert favano("resume", "r")[2] == "favano: goes on at time 56 of 140\n"
    assert contents(tmp_path / "r")["history.csv"] == before["history.csv"]


@pytest.mark.quick("both")
@pytest.mark.parametrize(
    ("first", "then"),
    [
        (["--seeds", "1"], ["--seeds", "3"]),
        (["--horizon", "100", "--track-bound"], ["--horizon", "140", "--track-bound"]),
        (["--horizon", "100", "--seeds", "1"], ["--horizon", "140", "--seeds", "2"]),
    ],
    ids=["seeds", "horizon", "both"],
)
def test_a_result_gets_more_seeds_or_a_longer_horizon(
    first: list[str],
    then: list[str],
    favano: Program,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert favano("run", *OFTEN, *first, "--out", "r")[0] == 0
    trained = Trained(monkeypatch)
    code, _, err = favano("run", *OFTEN, *then, "--out", "r")
    assert (code, trained.names) == (0, ["favano"])
    assert (" at time 91 of 140\n" in err) == ("--horizon" in first)
    assert favano("run", *OFTEN, *then, "--out", "whole")[0] == 0
    same(tmp_path / "r", tmp_path / "whole")
    bounds = [path.read_bytes() for path in tmp_path.glob("*/bound.csv")]
    assert len(bounds) == 2 * ("--track-bound" in first)
    assert len(set(bounds)) <= 1
    code, _, err = favano("run", *OFTEN, *first, "--out", "r")  # less is another run
    assert code == 2
    assert "already holds another run" in err


COMING = "client,second,available\n" + "".join(f"{client},0,1\n" for client in range(10))


@pytest.mark.quick(
    "--availability two-state:20:9-favano", "--link*-favano-delta", "--interruption*-deterministic"
)
@pytest.mark.parametrize("method", ["favano", "favano-delta", "deterministic"])
@pytest.mark.parametrize(
    "met",
    [
        "--availability two-state:20:9",
        "--availability two-state:20:9 --when-away paused",
        "--availability two-state:20:9 --when-away later",
        "--availability trace:coming.csv",
        "--link 0.5:2:0.5",
        "--step-law half-normal",
        "--interruption keep",
    ],
)
def test_a_longer_run_has_the_weights_of_a_fresh_one(
    met: str, method: str, favano: Program, tmp_path: Path
) -> None:
    """With `coming.csv`, clients are alike until one of them leaves, after the first horizon."""
    (tmp_path / "coming.csv").write_text(COMING + "1,110,0\n", encoding="utf-8")
    options = ["--reweight", method] if method == "deterministic" else ["--algorithm", method]
    flags = [*OFTEN, *options, *met.split(), "--fast-mean", "1.5", "--slow-mean", "4"]
    said = f"{'favano' if method == 'deterministic' else method} takes weights=empirical"
    assert said in favano("run", *flags, "--horizon", "100", "--out", "r")[2]
    code, _, err = favano("run", *flags, "--out", "r")
    assert (code, " of 140\n" in err) == (0, True)
    assert favano("run", *flags, "--out", "whole")[0] == 0
    same(tmp_path / "r", tmp_path / "whole")
    assert favano("verify", "r")[0] == 0


def test_seeds_that_are_there_are_not_trained_again(
    favano: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert favano("run", *SHORT, "--out", "r")[0] == 0
    assert favano("run", *SHORT, "--seeds", "2", "--out", "r")[0] == 0
    assert {line.split(",")[1] for line in favano.log[1:]} == {" seed 1"}
    summary = json.loads((tmp_path / "r" / "summary.json").read_text())
    assert [run["seed"] for run in summary["runs"]] == [0, 1]
    assert summary["audit"]["seed"] == summary["served"]["seed"] == 0


def crashed(favano: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """What is in the folder `r` of a run after a crash, which leaves no specification behind."""
    interrupted(favano, monkeypatch, "run", *OFTEN, "--out", "r")
    for path in (tmp_path / "r").glob("*.toml"):
        path.unlink()
    return contents(tmp_path / "r")


def test_a_refused_command_leaves_the_note_of_the_one_before(
    favano: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else `favano resume` would repeat the one that was refused."""
    before = crashed(favano, tmp_path, monkeypatch)
    code, _, err = favano("run", *OFTEN, "--horizon", "1", "--out", "r")
    assert (code, "holds checkpoints of a longer run" in err) == (2, True)
    assert contents(tmp_path / "r") == before
    assert favano("resume", "r")[0] == 0


def test_checkpoints_of_another_run_are_refused(
    favano: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = crashed(favano, tmp_path, monkeypatch)
    code, out, err = favano("run", *OFTEN, "--learning-rate", "0.3", "--out", "r")
    assert (code, out) == (2, "")
    assert err == (
        "favano: checkpoints=r/checkpoints: of another run (differs in learning_rate); remove "
        "them, or choose a new folder\n"
    )
    assert contents(tmp_path / "r").keys() == before.keys()
    code, _, err = favano("run", *OFTEN, "--learning-rate", "0.3", "--out", "r", "--force")
    assert (code, err) == (0, "")


def test_a_folder_without_a_run_and_a_damaged_note(favano: Program, tmp_path: Path) -> None:
    code, _, err = favano("resume", "nothing")
    assert (code, err) == (2, "favano: folder=nothing: holds no run that could go on\n")
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / RESUME).write_text("{")
    code, _, err = favano("resume", "r")
    assert code == 2
    assert "resume.json: is damaged" in err
    note = {"command": ["run"], "folder": str(tmp_path / "gone"), "out": "r"}
    (tmp_path / "r" / RESUME).write_text(json.dumps(note))
    code, _, err = favano("resume", "r")
    assert (code, err.endswith("which is not there any more\n")) == (2, True)


def test_a_result_with_missing_or_damaged_files_is_not_done(
    favano: Program, tmp_path: Path
) -> None:
    assert favano("run", *SHORT, "--out", "r")[0] == 0
    for name, damage, words in (
        ("spec.toml", None, "holds no result (need spec.toml and history.csv"),
        ("history.csv", None, "holds no result (need spec.toml and history.csv"),
        ("spec.toml", b"[", "spec.toml"),
        ("history.csv", b"seed\n0\n", "r/history.csv: is damaged"),
        ("model.safetensors", b"", "holds a damaged model.safetensors"),
    ):
        path = tmp_path / "r" / name
        whole = path.read_bytes()
        path.unlink()
        if damage is not None:
            path.write_bytes(damage)
        code, out, err = favano("resume", "r")
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert words in err
        path.write_bytes(whole)
    assert favano("resume", "r") == (0, "", "favano: already done: r\n")


def test_a_refused_command_leaves_nothing_behind(favano: Program, tmp_path: Path) -> None:
    assert favano("run", *SHORT, "--dataset", "mnist", "--data-dir", "none", "--out", "r")[0] == 2
    assert not (tmp_path / "r").exists()


@FORKS
def test_one_process_at_a_time(favano: Program, tmp_path: Path) -> None:
    """The other one holds the lock until its input ends."""
    program = (
        "import sys; from pathlib import Path\n"
        "from favano.run.folder_lock import FolderLock\n"
        "from favano.records.resumption import Resumption\n"
        "with FolderLock(Path('r'), Resumption((), '.', 'r')):\n"
        "    print('ready', flush=True); sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=tmp_path, env=os.environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as other:  # fmt: skip
        assert other.stdout is not None
        assert other.stdout.readline() == "ready\n"
        code, _, err = favano("run", *SHORT, "--out", "r")
        assert (code, err) == (
            2,
            "favano: out=r: another process is at work in this folder; wait for it, or choose a "
            "new folder\n",
        )
        assert favano("run", *SHORT, "--out", "r/favano")[::2] == (
            2, "favano: out=r/favano: another process is at work in r\n"
        )  # fmt: skip
        assert favano("run", *SHORT, "--out", ".")[::2] == (
            2, "favano: out=.: another process is at work in r\n"
        )  # fmt: skip
        other.kill()
    assert favano("run", *SHORT, "--out", "r")[0] == 0
