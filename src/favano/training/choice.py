"""The choice of kernels: measured once on a machine, remembered ever after.

A choice that was made anew each time could come out otherwise and change the last bits of a result.
So the first one is kept in the user's cache folder, for this processor, this PyTorch, this network
and this shape of a batch. Where it cannot be kept nothing is measured and the default is taken.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from time import process_time
from typing import cast, get_args

import torch

from favano.data.cache import default_root
from favano.training.flat import FlatModel
from favano.training.kernels import default_kernels, library_there
from favano.training.measured import Clock, candidates, fastest
from favano.training.task import Task
from favano.types import Kernels


def chosen_kernels(model: FlatModel, task: Task, clock: Clock = process_time) -> Kernels:
    """What was once found fastest here for such batches of such a network; measured if need be."""
    default = default_kernels()
    others = candidates(model, task, default) if library_there() else []
    if not others:
        return default
    decides = _what_decides(model, task, default)
    digest = hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()[:16]
    path = default_root() / "kernels" / f"{digest}.json"
    if (known := _read(path)) is not None:
        return known
    try:
        with _beside(path) as file:
            found = fastest(model, task, default, others, clock)
            file.write_text(json.dumps({"kernels": found, **decides}, indent=2) + "\n")
            return _keep(file, path, found)
    except OSError:
        return default


def _what_decides(model: FlatModel, task: Task, default: Kernels) -> dict[str, object]:
    """All that tells one choice from another."""
    layers = [(name, type(one).__name__) for name, one in model.module.named_modules()]
    shapes = [(name, tuple(one.shape)) for part in model.tied() for name, one in part.items()]
    structure = hashlib.sha256(repr((layers, shapes)).encode()).hexdigest()[:16]
    return {
        "processor": f"{platform.machine()}, {processor()}",
        "capability": torch.backends.cpu.get_cpu_capability(),
        "torch": torch.__version__,
        "default": default,
        "network": f"{type(model.module).__name__}, {model.layout.parameters} parameters",
        "structure": structure,
        "batch": [task.batches.batch_size, *task.features.shape[1:]],
        "dtype": str(model.vector.dtype),
    }


@cache
def processor() -> str:
    """The model of the processor, as far as the system says."""
    path = Path("/proc/cpuinfo")
    if path.exists():
        for line in path.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or f"{platform.machine()} processor"


def _read(path: Path) -> Kernels | None:
    """The choice in a file; None where there is none that can be read."""
    try:
        found = json.loads(path.read_text())["kernels"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return cast(Kernels, found) if found in get_args(Kernels) else None


@contextmanager
def _beside(path: Path) -> Iterator[Path]:
    """A file for the time being; an OSError if none can be written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    number, name = tempfile.mkstemp(dir=path.parent)
    os.close(number)
    try:
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)


def _keep(file: Path, path: Path, found: Kernels) -> Kernels:
    """Give the file its name; of two who measure at once, the first one's choice is taken."""
    if _read(path) is None:
        path.unlink(missing_ok=True)  # damaged
    try:
        path.hardlink_to(file)
    except FileExistsError:
        return _read(path) or found
    except OSError:  # no links here
        file.replace(path)
    return found
