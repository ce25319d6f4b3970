"""What all benchmarks share: commands in processes of their own, the machine, and result files."""

from __future__ import annotations

import json
import os
import platform
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median

Document = dict[str, object]


class Missing(Exception):
    """Why there is no number; one line."""


def call(
    command: Sequence[str | Path],
    timeout: float | None = None,
    variables: Mapping[str, str] | None = None,
    accept: Callable[[str], bool] = lambda output: False,
) -> str:
    """Standard output of a command; what it last said is the reason when it fails.

    A command that ends with an error has failed unless its output is accepted.
    """
    pipe, environment = subprocess.PIPE, {**os.environ, **(variables or {})}
    with subprocess.Popen(
        command, env=environment, stdout=pipe, stderr=pipe, text=True, start_new_session=True
    ) as process:
        try:
            output, errors = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # with the processes it has started
            raise Missing(f"no answer within {timeout:.0f} s") from None
    if process.returncode and not accept(output):
        said = [line.strip() for line in (output + errors).splitlines() if line.strip()]
        named = [line for line in said if "Error" in line or line.startswith("ERROR")]
        reason = (named or said or [f"exit status {process.returncode}"])[-1]
        raise Missing(reason[:200])
    return output


def last_document(output: str) -> Document:
    """The last line of JSON in what a command printed."""
    for line in reversed(output.splitlines()):
        if line.startswith("{"):
            document: Document = json.loads(line)
            return document
    raise Missing("printed no result")


def machine(gpu: bool = False) -> Document:
    """What the numbers are measured on."""
    facts = Path("/proc/cpuinfo")
    lines = facts.read_text().splitlines() if facts.exists() else []
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    document: Document = {
        "cpu": models[0] if models else platform.processor() or platform.machine(),
        "architecture": platform.machine(),
        "cores": cores,
        "python": platform.python_version(),
        "system": platform.system(),
    }
    return {**document, "gpu": _gpu()} if gpu else document


def _gpu() -> str:
    """The name of the first GPU."""
    try:
        return call(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]).splitlines()[0]
    except (OSError, Missing):
        return "unknown"


def versions(*packages: str) -> dict[str, str]:
    """Versions of the packages that are installed."""
    versions = {}
    for package in packages:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return versions


def heading(script: str, *, gpu: bool = False) -> Document:
    """When, where and how a benchmark was made; its results are added to this."""
    from favano import __version__

    return {
        "date": date.today().isoformat(),
        "release": __version__,
        "command": typed_command(script, sys.argv[1:]),
        "machine": machine(gpu),
        "versions": versions("torch", "triton", "numpy"),
    }


def typed_command(script: str, words: Sequence[str]) -> str:
    """The command from the root of the repository, without the file it writes to.

    >>> typed_command("plans.py", ["--repeats", "3", "--out", "plans.json"])
    'python benchmarks/plans.py --repeats 3'
    """
    kept = list(words)
    if "--out" in kept:
        place = kept.index("--out")
        del kept[place : place + 2]
    return shlex.join(["python", f"benchmarks/{script}", *kept])


def spread(values: Sequence[float]) -> dict[str, float]:
    """Median and range of some samples."""
    return {"median": median(values), "min": min(values), "max": max(values)}


def shown(numbers: Mapping[str, float], form: str = ",.0f") -> str:
    """Median and range in words.

    >>> shown(spread([3.0, 1.0, 2.0]))
    '2 (1..3)'
    """
    middle, low, high = (format(numbers[key], form) for key in ("median", "min", "max"))
    return f"{middle} ({low}..{high})"


def write(path: Path, document: Mapping[str, object]) -> None:
    """Write a result file, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".part")
    temporary.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    temporary.replace(path)
