"""Federations as they were recorded on loopback, and what the simulator makes of their traces.

`python -m tests.golden.federations [NAME ...]` makes the recordings anew: real processes and real
time, so each time others. A replay is the same to the last bit where the clients' processor and
PyTorch were those of this machine; elsewhere, models are close.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from socket import socket
from typing import Final

os.environ.setdefault("OMP_NUM_THREADS", "1")  # as for all tests

import numpy as np
from safetensors.numpy import load_file

from tests.golden.front_door import command, folder
from tests.golden.records import BYTES, FOLDER, Values
from tests.golden.said import said
from tests.golden.trained_models import projections

TOLERANCE: Final = 1e-5
_FOLDERS: Final = FOLDER / "federations"
_FILES: Final = (
    *("spec.toml", "federation.json", "trace.npz"),
    *("initial.safetensors", "model.safetensors"),
)
_FAVANO: Final = (sys.executable, "-m", "favano")
_PACES: Final = (0.01, 0.03, 0.1)  # seconds that a local step of each client takes at least
_SERVER: Final = (
    f"--dataset digits --split iid --clients {len(_PACES)} --rounds 8 --local-steps 5 "
    "--learning-rate 0.1 --batch-size 16 --influence inf"
)
CASES: Final[Mapping[str, str]] = {
    "favano": "--algorithm favano --selected 2 --tick 1 --grace 0.5",
    "fedbuff": "--algorithm fedbuff --buffer 2 --codec lattice --momentum 0.5",
    "scaffold": "--algorithm scaffold --selected 2",
}
QUICK: Final = tuple(CASES)


def record(case: str) -> Values:
    """What was recorded, and how far the replay is from the model of the federation."""
    name = next(name for name, flags in CASES.items() if flags == case)
    with folder() as here:
        shutil.copytree(_FOLDERS / name, here / name)
        replayed = json.loads(command(f"favano replay --json {name}").out)
        sentence = said(command(f"favano replay {name}"))
        with np.load(Path(name) / "trace.npz") as trace:
            counts = {"jobs": len(trace["steps"]), "steps": int(trace["steps"].sum())}
        model = load_file(Path(name) / "model.safetensors")
    return {
        **counts,
        "norm and projections": projections([tensor for _, tensor in sorted(model.items())]),
        "close": replayed["largest"] < TOLERANCE,
        BYTES: {"replay": {**replayed, **sentence}},
    }


def make(name: str) -> None:
    """A federation anew, with a server and a process for each client."""
    with folder() as here, socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        flags = f"{_SERVER} {CASES[name]} --port {port} --out {name}"
        server = subprocess.Popen([*_FAVANO, "serve", *flags.split()])
        clients = [
            subprocess.Popen(
                [*_FAVANO, "join", f"127.0.0.1:{port}", "--split", "iid", "--pace", str(pace),
                 "--partition", f"{number}/{len(_PACES)}"]
            )
            for number, pace in enumerate(_PACES)
        ]  # fmt: skip
        try:
            server.wait(timeout=600)
        finally:
            for process in (server, *clients):
                process.terminate()
                process.wait()
        (_FOLDERS / name).mkdir(parents=True, exist_ok=True)
        for file in _FILES:
            shutil.copy(here / name / file, _FOLDERS / name / file)


if __name__ == "__main__":
    for name in sys.argv[1:] or CASES:
        make(name)
