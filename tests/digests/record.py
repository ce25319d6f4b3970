"""Record what short runs write: `python -m tests.digests.record [FILE]`.

Recorded before the code is restructured and compared afterwards: the same flags must give the same
bytes on the same machine. Recording again is right only where numbers were meant to change.
"""

from __future__ import annotations

import csv
import hashlib
import json
import os
import platform
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, TypedDict
from unittest.mock import patch

os.environ.setdefault("OMP_NUM_THREADS", "1")  # as for all tests

import numpy as np
import torch
from safetensors.numpy import load_file

from favano.cli import main as favano
from tests.digests.runs import RUNS, TRACE, TRACE_FILE

RECORDED: Final = Path(__file__).with_name("digests.json")
SCHEDULE: Final = ("seed", "time", "server_step", "local_steps", "bits_up", "bits_down")
_DIVERGED: Final = 1  # exit code of a run that met NaN
_DIGITS: Final = 6  # of times, of which the last bits depend on the machine's logarithm


class Digests(TypedDict):
    """What one run wrote, as SHA-256; null where it has no such thing."""

    exit: int  # of the command
    history: str  # history.csv without its chain of digests, to the byte
    schedule: str | None  # columns of it that no arithmetic of models goes into
    model: str  # names, shapes and values of model.safetensors
    bound: str | None  # bound.csv


class Machine(TypedDict):
    """What the last bits of a result depend on."""

    processor: str
    torch: str
    numpy: str


class Record(Machine):
    """All runs on one machine."""

    runs: dict[str, Digests]


def this_machine() -> Machine:
    """The machine that this process runs on."""
    return Machine(processor=_processor(), torch=torch.__version__, numpy=np.__version__)


def digests_of(flags: Sequence[str]) -> Digests:
    """Run the command line with these flags in a folder of its own."""
    with _temporary_folder() as folder:
        (folder / TRACE_FILE).write_text(TRACE)
        code, output = _call(["run", *flags, "--out", "result"])
        if code not in (0, _DIVERGED):  # refused, or interrupted
            raise RuntimeError(f"favano run {' '.join(flags)} failed: {output}")
        content = (folder / "result" / "history.csv").read_bytes()
        bound = folder / "result" / "bound.csv"
        return Digests(
            exit=code,
            history=_digest(_without_digests(content.decode()).encode()),
            schedule=_schedule_digest(content.decode()) if _planned_ahead(flags) else None,
            model=_model_digest(folder / "result" / "model.safetensors"),
            bound=_digest(bound.read_bytes()) if bound.is_file() else None,
        )


def read(path: Path = RECORDED) -> Record:
    """What was recorded."""
    recorded: Record = json.loads(path.read_text(encoding="utf-8"))
    return recorded


def record(runs: Mapping[str, Sequence[str]] = RUNS) -> Record:
    """Make all runs, here and now."""
    return Record(**this_machine(), runs={name: digests_of(flags) for name, flags in runs.items()})


def _planned_ahead(flags: Sequence[str]) -> bool:
    """Whether the schedule is known before training.

    Not AsyncFedED's: the distances between its models decide how long its jobs are.
    """
    return "asyncfeded" not in flags


def _without_digests(history: str) -> str:
    """A history as it was before it had digests, its last two columns."""
    return "".join(f"{line.rsplit(',', 2)[0]}\n" for line in history.splitlines())


def _schedule_digest(history: str) -> str:
    """The digest of who did what when, and of the traffic."""
    rows = [
        [f"{float(row[name]):.{_DIGITS}f}" if name == "time" else row[name] for name in SCHEDULE]
        for row in csv.DictReader(StringIO(history))
    ]
    return _digest(json.dumps(rows).encode())


def _model_digest(path: Path) -> str:
    """The digest of all tensors; the header also names the version of the package."""
    digest = hashlib.sha256()
    for name, tensor in sorted(load_file(path).items()):
        digest.update(f"{name} {tensor.dtype} {tensor.shape}\n".encode())
        digest.update(tensor.tobytes())
    return digest.hexdigest()


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _call(arguments: Sequence[str]) -> tuple[int, str]:
    """Exit code and text of a command that is called inside this process."""
    text, handler = StringIO(), signal.getsignal(signal.SIGTERM)
    code: object = 0
    try:
        with (
            patch.object(sys, "argv", ["favano", *arguments]),
            redirect_stdout(text),
            redirect_stderr(text),
        ):
            favano()
    except SystemExit as ending:
        code = ending.code or 0
    finally:
        signal.signal(signal.SIGTERM, handler)
    assert isinstance(code, int)
    return code, text.getvalue()


@contextmanager
def _temporary_folder() -> Iterator[Path]:
    """A folder that is the current one while it lasts, so that no flag holds its name."""
    with TemporaryDirectory() as name, chdir(name):
        yield Path(name)


def _processor() -> str:
    """The processor as the system names it, and the instructions that PyTorch uses on it."""
    named = {"model name", "CPU implementer", "CPU variant", "CPU part"}
    facts: dict[str, str] = {}
    path = Path("/proc/cpuinfo")
    for line in path.read_text().splitlines() if path.exists() else ():
        key, _, value = line.partition(":")
        if key.strip() in named:
            facts.setdefault(key.strip(), value.strip())
    parts = [f"{key} {value}" for key, value in facts.items()] or [platform.processor()]
    return ", ".join([platform.machine(), *parts, torch.backends.cpu.get_cpu_capability()])


def _write(path: Path) -> None:
    path.write_text(json.dumps(record(), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    _write(Path(sys.argv[1]) if len(sys.argv) > 1 else RECORDED)
