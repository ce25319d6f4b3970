"""Commands that are killed at random instants go on, and give the bytes of an unbroken run."""

from __future__ import annotations

import json
import multiprocessing
import os
import shlex
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from random import Random
from shutil import rmtree
from time import monotonic

import pytest

from favano.cli import main
from tests.cli.test_reproduce import mnist
from tests.forks import FORKS

__all__ = ["mnist"]

pytestmark = [FORKS, pytest.mark.machine]  # the instants are those of a clock on the wall
SMALL = (
    "--kernels native --clients 9 --local-steps 4 --batch-size 16 --slow-mean 8 "
    "--horizon 400 --evaluate-every 20 --seeds 2 --checkpoint-every 0"
)
RUNS = {
    "favano": "--algorithm favano --track-bound",
    "few-bits": "--algorithm favano --quantise luq --weights empirical",
    "quafl": "--algorithm quafl --codec lattice --variance live",
    "fedbuff": "--algorithm fedbuff --buffer 2 --codec qsgd --codec-bits 3",
    "scaffold": "--algorithm scaffold --codec min-max",
    "asyncfeded": "--algorithm asyncfeded",
    "asofed": "--algorithm asofed",
    "kept": "--algorithm fedavg --optimiser adam --optimiser-state kept --learning-rate 0.01",
    "server": "--algorithm fedbuff --buffer 2 --server-optimiser yogi",
    "loop": "--algorithm quafl --codec lattice --engine loop",
    "asyncsgd": "--algorithm asyncsgd",
    "best": "--algorithm favano --holdout 287 --keep best",
}
METHODS = (
    "favano,favano-delta,fedavg,quafl,fedbuff,asyncsgd-adaptive,fedasync,aafl,fedfix,scaffold,"
    "asyncfeded,fedprox,fednova,asofed"
)
COMPARISON = f"compare {SMALL} --algorithms {METHODS} --horizon 150"
SEARCH = (
    "tune --algorithms favano,fedbuff --grid learning_rate=0.1,0.3 --search halving "
    f"--grid fedbuff.buffer=2,3 {SMALL} --seeds 1 --horizon 90"
)
PAPER = "reproduce figure-mnist --scale 0.05 --seeds 1 --data-dir data --checkpoint-every 0"
LONG = 1e6
EXACT = (
    "history.csv", "model.safetensors", "participation.json", "bound.csv", "spec.toml",
    "trials.csv",
)  # fmt: skip


def call(words: Sequence[str]) -> None:
    """In a process of its own."""
    with Path("output.txt").open("a") as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
        sys.argv = ["favano", *words]
        main()


def called(words: Sequence[str], seconds: float = LONG) -> float | None:
    """Call a command and kill it after so many seconds; None if it was killed, else its time."""
    process = multiprocessing.get_context("fork").Process(target=call, args=(list(words),))
    began = monotonic()
    process.start()
    process.join(seconds)
    assert process.pid is not None
    if process.exitcode is None:
        os.kill(process.pid, signal.SIGKILL)
        process.join()
    if process.exitcode == -signal.SIGKILL:
        return None
    assert process.exitcode == 0, Path("output.txt").read_text()
    return monotonic() - began


def contents(folder: Path) -> dict[str, bytes | str]:
    """What must be equal; times of the clock on the wall are not."""
    files: dict[str, bytes | str] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.name in EXACT:
            files[name] = path.read_bytes()
        elif path.parent.name == "runs" and path.suffix == ".json":
            files[name] = str(json.loads(path.read_text())["history"])
    assert files
    return files


def check_kills(command: str, kills: int, draw: Random) -> None:
    """Kill a command at so many instants, go on each time, and compare with an unbroken run.

    If it is not killed in time, it begins anew and is killed earlier.
    """
    words, out = shlex.split(command), Path("killed")
    longest = called([*words, "--out", "whole"])
    assert longest is not None
    ended = None
    while kills or ended is None:
        resumed = (out / "resume.json").exists() and draw.random() < 0.5
        again = ["resume", "killed"] if resumed else [*words, "--out", "killed"]
        ended = called(again, draw.uniform(0.1, 0.9) * longest if kills else LONG)
        if ended is None:
            kills -= 1
            continue
        assert contents(out) == contents(Path("whole"))
        assert not list(out.rglob("resume.json"))
        assert not list(out.rglob(".*"))
        longest *= 0.7
        rmtree(out)


def test_a_run_that_is_killed_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    check_kills(f"run {SMALL} {RUNS['scaffold']} --seeds 1", 2, Random(0))


def test_a_comparison_that_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    check_kills(
        f"compare {SMALL} --algorithms quafl,asyncfeded --seeds 1 --horizon 100", 1, Random(1)
    )


def test_a_search_that_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    check_kills(SEARCH, 1, Random(2))


@pytest.mark.parametrize("name", list(RUNS))
def test_runs_that_are_killed_again_and_again(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shared = SMALL.replace("--local-steps 4 ", "") if name == "asyncsgd" else SMALL
    check_kills(f"run {shared} {RUNS[name]}", 4, Random(name))


@pytest.mark.usefixtures("mnist")
@pytest.mark.parametrize(
    "command", [COMPARISON, PAPER, SEARCH], ids=["compare", "reproduce", "tune"]
)
def test_many_runs_that_are_killed_again_and_again(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    check_kills(command, 4, Random(command))
