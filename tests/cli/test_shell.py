"""What all commands share."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from favano.cli import shell
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


class Driver:
    """A CUDA driver that notes what it is asked for."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, object]] = []

    def __getattr__(self, name: str) -> Callable[..., int]:
        def call(*given: object) -> int:
            self.calls.append((name, given[-1]))
            return 0

        return call


@pytest.mark.parametrize(("device", "number"), [("cuda", 0), ("cuda:3", 3), ("cpu", None)])
def test_the_context_of_a_gpu_begins_before_pytorch(
    device: str, number: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch  # noqa: F401

    driver = Driver()
    monkeypatch.setenv("CUDA_MODULE_LOADING", "LAZY")
    monkeypatch.setattr(shell.ctypes, "CDLL", lambda name: driver)  # type: ignore[attr-defined]
    shell.begin_cuda(device)
    assert not driver.calls  # PyTorch is here: the process is not ours alone
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    shell.begin_cuda(device)
    for thread in threading.enumerate():
        if thread.name == "CUDA":
            thread.join()
    names = [name for name, _ in driver.calls]
    if number is None:
        assert not names
    else:
        assert names == ["cuInit", "cuDeviceGet", "cuDevicePrimaryCtxRetain"]
        assert driver.calls[1] == ("cuDeviceGet", number)


def test_without_a_driver_pytorch_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise OSError(name)

    monkeypatch.setattr(shell.ctypes, "CDLL", missing)  # type: ignore[attr-defined]
    shell._make_context(0)
