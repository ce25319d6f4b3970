"""Runs that are killed (kill -9) as they write a checkpoint, and resumed, by each engine.

The folder is then, file by file, that of a run that nothing interrupts.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import favano
from tests.golden.comparison import Value
from tests.golden.front_door import command, folder
from tests.golden.records import Values
from tests.golden.said import said
from tests.golden.trained_models import TOLERANCE as TOLERANCE
from tests.golden.trained_models import values_of

_SUMMARY: Final = "summary.json"  # has seconds

# A command in a process that is killed when its third checkpoint, already written, gets its name.
_KILLED: Final = """
import os, runpy, signal, sys
waited = 3
def kill(event, arguments):
    global waited
    if event == "os.rename" and str(arguments[1]).endswith(".checkpoint"):
        waited -= 1
        if not waited:
            os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(kill)
runpy.run_module("favano", run_name="__main__", alter_sys=True)
"""
_SMALL: Final = (
    "run --clients 6 --batch-size 16 --learning-rate 0.1 --horizon 80 --evaluate-every 20 "
    "--checkpoint-every 0"
)
_S, _K = "--selected 3", "--local-steps 4"
CASES: Final[Mapping[str, str]] = {
    "favano, lanes": f"{_S} {_K} --algorithm favano",
    "favano, loop": f"{_S} {_K} --algorithm favano --engine loop",
    "several seeds, lanes": f"{_S} {_K} --algorithm quafl --codec lattice --seeds 2",
    "kept momentum, loop": (
        f"{_K} --algorithm fedasync --momentum 0.9 --optimiser-state kept --engine loop"
    ),
    "corrections, lanes": f"{_S} {_K} --algorithm scaffold --deadline 20 --server momentum",
    "memories, loop": f"{_K} --algorithm asofed --engine loop --codec qsgd",
    "distances, lanes": f"{_K} --algorithm asyncfeded",
    "absent clients, lanes": (
        f"{_S} {_K} --algorithm fedbuff --buffer 2 --availability two-state:30:10 --link 1:2:0.1"
    ),
}
QUICK: Final = ("favano, lanes", "favano, loop")


def killed(line: str) -> int:
    """A command that is killed, in the current folder; returns minus the number of the signal."""
    program = [sys.executable, "-c", _KILLED, *shlex.split(line)]
    return subprocess.run(program, capture_output=True, check=False).returncode


def record(case: str) -> Values:
    """What was left, what was said, and the result, beside that of a whole run."""
    with folder() as here:
        code = killed(f"{_SMALL} {case} --out result")
        left: Value = sorted(str(path.relative_to(here)) for path in here.rglob("*.checkpoint"))
        resumed = said(command("favano resume result"))
        command(f"favano {_SMALL} {case} --out whole")
        (result,) = favano.load("result").results
        files = sorted(path.name for path in Path("whole").glob("*.*") if path.name != _SUMMARY)
        same = {name: _content("result", name) == _content("whole", name) for name in files}
        return {
            "killed": code, "left": left, "resumed": resumed, "as a whole run": dict(same),
            **values_of(result),
        }  # fmt: skip


def _content(*place: str) -> bytes | None:
    path = Path(*place)
    return path.read_bytes() if path.is_file() else None
