"""Measures favano against its peers: one command, one environment per peer, interleaved runs.

python benchmarks/peers/run.py [--repeats 3] [--seconds 20] [--only a,b] [--out FILE.json]
                               [--write docs/performance.md]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
import venv
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from statistics import median

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
CACHE = Path(os.environ.get("FAVANO_PEERS") or Path.home() / ".cache" / "favano-peers")
BEGIN, END = "<!-- peers: made by benchmarks/peers/run.py -->", "<!-- end of peers -->"
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

Sample = dict[str, object]


class Missing(Exception):
    """Why a system has no number; one line."""


def call(command: list[str | Path], timeout: float | None, **variables: str) -> str:
    """Standard output of a command; what it last said is the reason when it fails."""
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment = {**inherited, **variables}
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, env=environment, stdout=pipe, stderr=pipe, text=True, start_new_session=True
    ) as process:
        try:
            output, errors = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # with the processes it has started
            raise Missing(f"no answer within {timeout:.0f} s") from None
    if process.returncode:
        said = [line.strip() for line in (output + errors).splitlines() if line.strip()]
        named = [line for line in said if "Error" in line or line.startswith("ERROR")]
        reason = (named or said or [f"exit status {process.returncode}"])[-1]
        raise Missing(reason[:200])
    return output


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
        call([python, "-m", "pip", "install", "--quiet", "-r", wanted], None)
        installed.write_text(wanted.read_text())
    return python


def measure(name: str, python: Path, seconds: float) -> Sample:
    """One run of a system in a fresh process."""
    system = SYSTEMS[name]
    script = HERE / "systems" / system.script
    output = call(
        [python, script, "--seconds", str(seconds)], STARTUP + 5 * seconds, **system.variables
    )
    for line in reversed(output.splitlines()):
        if line.startswith('{"system"'):
            return {**json.loads(line), "system": name}
    raise Missing("printed no result")


def machine() -> dict[str, object]:
    """What the numbers were measured on."""
    facts = Path("/proc/cpuinfo")
    lines = facts.read_text().splitlines() if facts.exists() else []
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "cpu": models[0] if models else platform.processor() or platform.machine(),
        "architecture": platform.machine(),
        "cores": cores,
        "python": platform.python_version(),
        "system": platform.system(),
    }


def spread(values: list[float], digits: int) -> str:
    """The median and the range."""
    low, high = (f"{value:,.{digits}f}" for value in (min(values), max(values)))
    return f"{median(values):,.{digits}f} | {low}..{high}"


def rates(result: dict, name: str) -> dict[int, float]:
    """Steps per second of a system by repeat."""
    found = [sample for sample in result["samples"] if sample["system"] == name]
    return {sample["repeat"]: sample["steps_per_second"] for sample in found}


def table(result: dict) -> str:
    """The measurement in Markdown."""
    ours = rates(result, "favano")
    lines = [
        "| system | steps/s, median | min..max | favano / peer | min..max | version |",
        "|---|---|---|---|---|---|",
    ]
    for name in result["systems"]:
        theirs, label = rates(result, name), SYSTEMS[name].label
        if not theirs or name in result["missing"]:
            reason = result["missing"].get(name, "not measured").replace("|", "\\|")
            lines.append(f"| {label} | missing: {reason} | | | | |")
            continue
        paired = [ours[repeat] / rate for repeat, rate in theirs.items() if repeat in ours]
        ratio = spread(paired, 2) if paired and name != "favano" else " | "
        last = [sample for sample in result["samples"] if sample["system"] == name][-1]
        lines.append(
            f"| {label} | {spread(list(theirs.values()), 0)} | {ratio} | {last['version']} |"
        )
    facts, work = result["machine"], result["seconds"]
    note = (
        f"{facts['cpu']} ({facts['architecture']}), {facts['cores']} cores, Python "
        f"{facts['python']}; {result['date']}. {result['repeats']} interleaved runs of {work:g} s "
        "each after the warm-up, each in a fresh process; ratios are taken within a repeat."
    )
    return "\n".join([*lines, "", note])


def write(page: Path, text: str) -> None:
    """Put the table between its markers, at the end of the page if they are not there."""
    old = page.read_text() if page.exists() else "# Performance\n"
    section = f"{BEGIN}\n\n{text}\n\n{END}"
    if BEGIN in old and END in old:
        head, rest = old.split(BEGIN, 1)
        page.write_text(head + section + rest.split(END, 1)[1])
    else:
        page.write_text(f"{old.rstrip()}\n\n{section}\n")


def arguments() -> argparse.Namespace:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=20.0, help="measured per run")
    parser.add_argument("--only", help=f"comma-separated, of {', '.join(SYSTEMS)}")
    parser.add_argument("--out", type=Path, help="write all samples as JSON")
    parser.add_argument("--write", type=Path, help="put the table into this page")
    asked = parser.parse_args()
    asked.systems = asked.only.split(",") if asked.only else list(SYSTEMS)
    if unknown := set(asked.systems) - set(SYSTEMS):
        parser.error(f"--only {','.join(sorted(unknown))}: need some of {', '.join(SYSTEMS)}")
    return asked


def main() -> None:
    """Install, measure in turn, report."""
    asked = arguments()
    pythons: dict[str, Path] = {}
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
                sample = {**measure(name, pythons[name], asked.seconds), "repeat": repeat}
            except (Missing, OSError) as reason:
                missing[name] = f"failed: {reason}"
                print(f"{name}: {missing[name]}", file=sys.stderr, flush=True)
                continue
            samples.append(sample)
            rate = f"{sample['steps_per_second']:,.0f} steps/s"
            print(f"{repeat + 1}/{asked.repeats} {name}: {rate}", file=sys.stderr, flush=True)
    result = {
        "date": date.today().isoformat(),
        "machine": machine(),
        "repeats": asked.repeats,
        "seconds": asked.seconds,
        "systems": asked.systems,
        "missing": missing,
        "samples": samples,
    }
    if asked.out:
        asked.out.write_text(json.dumps(result, indent=1) + "\n")
    text = table(result)
    if asked.write:
        write(asked.write, text)
    print(text)


if __name__ == "__main__":
    main()
