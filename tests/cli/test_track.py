"""`--track`: what is refused, and into which folders `favano resume` writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.test_cli import SHORT, Program, favano
from tests.cli.test_resume import OFTEN, interrupted

__all__ = ["favano"]


def test_an_unknown_tracker_is_refused_in_one_sentence(favano: Program, tmp_path: Path) -> None:
    code, out, err = favano("run", *SHORT, "--track", "tensorbord:runs", "--out", "r")
    rule = "need one of tensorboard:DIR, wandb:DIR, mlflow:DIR"
    assert (code, out) == (2, "")
    assert err == f"favano: track=tensorbord:runs: {rule}\n"
    assert list(tmp_path.iterdir()) == []


def test_several_trackers_of_a_comparison(favano: Program, tmp_path: Path) -> None:
    flags = ["--track", "tensorboard:a", "--track", "tensorboard:b", "--algorithms"]
    assert favano("compare", *SHORT, *flags, "favano,fedavg", "--out", "c")[0] == 0
    for folder in ("a", "b"):
        runs = sorted(path.name for path in (tmp_path / folder).iterdir())
        assert runs == ["favano", "fedavg"]


def test_a_resumed_command_writes_to_trackers_that_are_named_again(
    favano: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command is in a file of the folder, which somebody else may have written."""
    flags = ["--track=tensorboard:first", "--track", "tensorboard:second", "--track-bound"]
    interrupted(favano, monkeypatch, "run", *OFTEN, *flags, "--out", "r")
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*events*")}
    code, _, err = favano("resume", "r", "--track", "tensorboard:first")
    assert (code, "if tensorboard:second is yours, add --track tensorboard:second" in err) == (
        2,
        True,
    )
    asked = ["--track", "tensorboard:first", "--track", "tensorboard:second"]
    code, _, err = favano("resume", "r", *asked, "--track", "tensorboard:third")
    assert (code, "the command that goes on had no such tracker" in err) == (2, True)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*events*")} == before
    assert favano("resume", "r", *asked)[0] == 0
    assert len(list(tmp_path.rglob("*events*"))) == 2 * len(before)
