"""What all commands share."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from favano.cli.app import app
from favano.cli.shell import INTERRUPTED, interruptible


class Interrupting:
    """As Ctrl-C in the middle of an import that makes a class."""

    def __set_name__(self, owner: type, name: str) -> None:
        raise KeyboardInterrupt


def test_ctrl_c_while_a_class_is_made_ends_as_any_other() -> None:
    def command() -> None:
        type("Imported", (), {"field": Interrupting()})

    with pytest.raises(typer.Exit) as ended:
        interruptible(command)()
    assert ended.value.exit_code == INTERRUPTED


def test_other_errors_are_shown() -> None:
    def command() -> None:
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        interruptible(command)()


def test_plan_refuses_a_folder_that_cannot_be_written_first() -> None:
    done = CliRunner().invoke(app, ["plan", "--out", "/proc/favano"])
    assert "out=/proc/favano: /proc cannot be written" in str(done.exception)


@pytest.mark.parametrize("words", [["--version"], ["methods"], ["methods", "--json"]])
def test_a_full_disk_behind_standard_output_is_told_in_a_sentence(words: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "favano", *words]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "favano: the output cannot be written: No space left on device\n"
