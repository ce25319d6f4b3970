"""The choice of CPU kernels: measured once per machine and network, then remembered.

A new measurement might choose other kernels and so change the last bits of a result. Therefore the
first choice is kept in the user's cache folder, by processor, PyTorch version, network and batch
shape. If it cannot be kept, nothing is measured and the default is used.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import process_time
from typing import cast, get_args

import torch
from torch import Tensor, nn

from favano.data.cache import default_root
from favano.training.flat import FlatModel
from favano.training.kernel_sets import arranged, default_kernels, library_there, using
from favano.training.objective import Loss
from favano.training.processor_time import Clock, processor_seconds, seconds
from favano.training.task import Task, plain_gradient
from favano.types import Kernels

_LONGEST = 0.25  # seconds of one sample
_PART = 8  # the first, short measurement takes this part of a batch
_HOPELESS = 2.0  # times the best in the first measurement: not measured again
_GAIN = 0.9  # other kernels must take at most this share of the default's time


def chosen_kernels(model: FlatModel, task: Task, clock: Clock = process_time) -> Kernels:
    """The fastest kernels on this machine for this network and batch shape."""
    default = default_kernels()
    others = candidates(model, task, default) if library_there() else []
    if not others:
        return default
    decides = {**_what_decides(model, task, default), "others": others}
    digest = hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()[:16]
    path = default_root() / "kernels" / f"{digest}.json"
    if (known := _read(path)) is not None:
        return known
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=path.parent) as folder:
            fastest = fastest_kernels(model, task, default, others, clock)
            file = Path(folder) / path.name
            file.write_text(json.dumps({"kernels": fastest, **decides}, indent=2) + "\n")
            return _keep(file, path, fastest)
    except OSError:
        return default


def fastest_kernels(
    model: FlatModel,
    task: Task,
    default: Kernels,
    others: list[Kernels],
    clock: Clock = process_time,
) -> Kernels:
    """The kernels with the least processor time for a few real steps on a batch.

    Kernels other than the default must take a tenth less time, and less in every round. If a whole
    batch takes long, only a part of it is used.
    """
    features, labels = _largest_batch(task, model)
    with model.unchanged():
        model.module.train()
        first = max(1, len(features) // _PART)
        try:
            steps = _steps(model, task.loss, features[:first], labels[:first], [default, *others])
        except Exception:  # BatchNorm, or a loss, needs more rows
            first = len(features)
            steps = _steps(model, task.loss, features, labels, [default, *others])
        look = {kernels: seconds(step, clock) for kernels, step in steps.items()}
        limit = _HOPELESS * min(look.values())
        hopeful = [kernels for kernels in look if kernels == default or look[kernels] < limit]
        length = len(features)
        while length > first and look[default] * length / first > _LONGEST:
            length //= 2
        steps = _steps(model, task.loss, features[:length], labels[:length], hopeful)
        taken = processor_seconds(steps, clock)
    best = min(taken, key=lambda kernels: median(taken[kernels]))
    # Within rounds: a machine may become slower between them.
    shares = [spent / other for spent, other in zip(taken[best], taken[default], strict=True)]
    return best if max(shares) < 1.0 and median(shares) < _GAIN else default


def candidates(model: FlatModel, task: Task, default: Kernels) -> list[Kernels]:
    """Kernels that may be faster than the default for this network and these samples."""
    others: list[Kernels] = ["native"] if default == "onednn" else ["onednn"]
    images = task.features.ndim == 4
    if images and any(isinstance(layer, nn.Conv2d) for layer in model.module.modules()):
        others.append("channels-last")
    return others


def _steps(
    model: FlatModel, loss: Loss, features: Tensor, labels: Tensor, wanted: list[Kernels]
) -> dict[Kernels, Callable[[], object]]:
    """A step for each set of kernels that the network can be trained with."""
    steps: dict[Kernels, Callable[[], object]] = {}
    for kernels in wanted:
        step = partial(_step, model, loss, arranged(features, kernels), labels, kernels)
        try:
            step()
        except RuntimeError:  # a network may require another memory layout
            if kernels == wanted[0]:
                raise
            continue
        steps[kernels] = step
    return steps


def _step(model: FlatModel, loss: Loss, features: Tensor, labels: Tensor, kernels: Kernels) -> None:
    with using(kernels):
        plain_gradient(model, loss, features, labels)


def _largest_batch(task: Task, model: FlatModel) -> tuple[Tensor, Tensor]:
    parts = task.batches.parts
    client = max(range(len(parts)), key=lambda who: len(parts[who]))
    return task.batch(client, 0, model.vector.dtype)


def _what_decides(model: FlatModel, task: Task, default: Kernels) -> dict[str, object]:
    """Everything that the choice depends on."""
    layers = [(name, type(layer).__name__) for name, layer in model.module.named_modules()]
    shapes = [(name, tuple(tensor.shape)) for part in model.tied() for name, tensor in part.items()]
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
    """Model name of the processor, if the system knows it."""
    path = Path("/proc/cpuinfo")
    if path.exists():
        for line in path.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or f"{platform.machine()} processor"


def _read(path: Path) -> Kernels | None:
    """The choice in a file; None if it is missing or damaged."""
    try:
        kernels = json.loads(path.read_text())["kernels"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return cast(Kernels, kernels) if kernels in get_args(Kernels) else None


def _keep(file: Path, path: Path, kernels: Kernels) -> Kernels:
    """Publish the file; if two processes measure at the same time, the first one decides."""
    if _read(path) is None:
        path.unlink(missing_ok=True)  # damaged
    try:
        path.hardlink_to(file)
    except FileExistsError:
        return _read(path) or kernels
    except OSError:  # the file system has no hard links
        file.replace(path)
    return kernels
