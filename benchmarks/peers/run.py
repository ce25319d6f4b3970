"""Measures favano against its peers: one command, one environment per peer, interleaved runs.

python benchmarks/peers/run.py [--repeats 3] [--seconds 20] [--only a,b] [--against WHEEL]
                               [--out FILE.json]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import venv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypedDict, cast

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path += [str(HERE.parent), str(ROOT / "src")]

from measurement import (  # noqa: E402
    Document,
    Missing,
    call,
    heading,
    last_document,
    spread,
    write,
)
from releases import earlier  # noqa: E402

CACHE = Path(os.environ.get("FAVANO_PEERS") or Path.home() / ".cache" / "favano-peers")
STARTUP = 300  # seconds a system may take beside the measured ones


@dataclass(frozen=True)
class System:
    """A script of `systems/`, and the environment it runs in."""

    label: str
    script: str
    requirements: str | None  # None: the project's own environment
    variables: dict[str, str] = field(default_factory=dict)


SYSTEMS = {
    "favano": System("**favano**", "favano_.py", None, {"PYTHONPATH": str(ROOT / "src")}),
    "plain": System("plain PyTorch loop, a thread per core", "plain.py", "plain"),
    "plain-1": System(
        "plain PyTorch loop, one thread", "plain.py", "plain", {"OMP_NUM_THREADS": "1"}
    ),
    "flower": System(
        "Flower, simulation engine", "flower.py", "flower", {"FLWR_TELEMETRY_ENABLED": "0"}
    ),
    "flgo": System("FLGo", "flgo_.py", "flgo"),
    "pfl": System("pfl-research, a process per core", "pfl_.py", "pfl"),
    "fedjax": System("FedJAX, jit", "fedjax_.py", "fedjax"),
}


BEFORE = "favano-before"  # of `--against`


class Sample(TypedDict):
    """One run of a system."""

    system: str
    repeat: int
    steps_per_second: float
    version: str


def interpreter(folder: Path) -> Path:
    """The Python of an environment."""
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def prepare(system: System) -> Path:
    """The Python a system runs with, installed unless this list of requirements already was."""
    if system.requirements is None:
        own = interpreter(ROOT / ".venv")
        return own if own.exists() else Path(sys.executable)
    wanted = HERE / "requirements" / f"{system.requirements}.txt"
    folder = CACHE / system.requirements
    python, installed = interpreter(folder), folder / "installed.txt"
    if not installed.exists() or installed.read_text() != wanted.read_text():
        print(f"installing {system.requirements}", file=sys.stderr, flush=True)
        venv.create(folder, with_pip=True, clear=True)
        call([python, "-m", "pip", "install", "--quiet", "-r", wanted])
        installed.write_text(wanted.read_text())
    return python


def measure(name: str, python: Path, seconds: float, repeat: int) -> Sample:
    """One run of a system in a fresh process."""
    system = SYSTEMS[name]
    script = HERE / "systems" / system.script
    command: list[str | Path] = [python, script, "--seconds", str(seconds)]
    variables = {"PYTHONPATH": "", **system.variables}
    document = last_document(call(command, STARTUP + 5 * seconds, variables))
    return cast(Sample, {**document, "system": name, "repeat": repeat})


def rates(samples: Sequence[Sample], name: str) -> dict[int, float]:
    """Steps per second of a system by repeat."""
    return {
        sample["repeat"]: sample["steps_per_second"]
        for sample in samples
        if sample["system"] == name
    }


def summary(name: str, samples: Sequence[Sample], missing: Mapping[str, str]) -> Document:
    """The speed of a system, and favano's over it within a repeat."""
    ours, theirs, label = rates(samples, "favano"), rates(samples, name), SYSTEMS[name].label
    if not theirs or name in missing:
        return {"label": label, "missing": missing.get(name, "not measured")}
    paired = [ours[repeat] / rate for repeat, rate in theirs.items() if repeat in ours]
    return {
        "label": label,
        "version": next(sample["version"] for sample in samples if sample["system"] == name),
        "steps_per_second": spread(list(theirs.values())),
        "ratio": spread(paired) if paired and name != "favano" else None,
    }


def arguments() -> argparse.Namespace:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=20.0, help="measured per run")
    parser.add_argument("--only", help=f"comma-separated, of {', '.join(SYSTEMS)}")
    parser.add_argument("--against", type=Path, help="an earlier release: a wheel, or a folder")
    parser.add_argument("--out", type=Path, help="write all samples as JSON")
    asked = parser.parse_args()
    asked.systems = asked.only.split(",") if asked.only else list(SYSTEMS)
    if unknown := set(asked.systems) - set(SYSTEMS):
        parser.error(f"--only {','.join(sorted(unknown))}: need some of {', '.join(SYSTEMS)}")
    return asked


def main() -> None:
    """Install, measure in turn, report."""
    asked = arguments()
    pythons: dict[str, Path] = {}
    if asked.against:
        release = earlier(asked.against)
        variables = {"PYTHONPATH": release.path}
        SYSTEMS[BEFORE] = System(release.label, "favano_.py", None, variables)
        pythons[BEFORE] = release.python
    missing: dict[str, str] = {}
    samples: list[Sample] = []
    for name in asked.systems:
        try:
            pythons[name] = prepare(SYSTEMS[name])
        except (Missing, OSError, subprocess.CalledProcessError) as reason:
            missing[name] = f"not installed: {reason}"
    for repeat in range(asked.repeats):
        for name in [name for name in pythons if name not in missing]:
            try:
                sample = measure(name, pythons[name], asked.seconds, repeat)
            except (Missing, OSError) as reason:
                missing[name] = f"failed: {reason}"
                print(f"{name}: {missing[name]}", file=sys.stderr, flush=True)
                continue
            samples.append(sample)
            rate = f"{sample['steps_per_second']:,.0f} steps/s"
            print(f"{repeat + 1}/{asked.repeats} {name}: {rate}", file=sys.stderr, flush=True)
    document = {
        "repeats": asked.repeats,
        "seconds": asked.seconds,
        "systems": {
            name: summary(name, samples, missing)
            for name in {**dict.fromkeys(asked.systems), **pythons}
        },
        "samples": samples,
    }
    for name, system in document["systems"].items():
        print(name, system)
    if asked.out:
        write(asked.out, heading("peers/run.py") | document)


if __name__ == "__main__":
    main()
