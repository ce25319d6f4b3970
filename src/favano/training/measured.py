"""Which kernels are fastest here: a few real steps with each, turn about.

What is compared is the time of the processor, not of the clock: that of all threads a library may
start, and nothing of what other programs do meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from statistics import median
from time import process_time
from typing import TypeAlias, TypeVar

from torch import Tensor, nn

from favano.training.flat import FlatModel
from favano.training.kernels import arranged, using
from favano.training.plain import plain_gradient
from favano.training.task import Loss, Task
from favano.types import Kernels

_ROUNDS = 3
_SHORTEST, _LONGEST = 0.03, 0.25  # seconds of one sample
_PART = 8  # a first look takes this part of a batch
_HOPELESS = 2.0  # times the best at first look: not looked at again
_GAIN = 0.9  # of the default's time, at most, is what another choice must take

Way = TypeVar("Way")
Clock: TypeAlias = Callable[[], float]  # seconds; a parameter, so that tests need no real time


def fastest(
    model: FlatModel,
    task: Task,
    default: Kernels,
    others: list[Kernels],
    clock: Clock = process_time,
) -> Kernels:
    """The kernels that take the least time on a batch; the default unless others clearly do:
    a tenth less, and less in every sample.

    Of a batch that takes long only a part is used.
    """
    features, labels = _largest_batch(task, model)
    start, was_training = model.snapshot(), model.module.training
    model.module.train()
    try:
        first = max(1, len(features) // _PART)
        steps = _steps(model, task.loss, features[:first], labels[:first], [default, *others])
        look = {kernels: _seconds(step, clock) for kernels, step in steps.items()}
        limit = _HOPELESS * min(look.values())
        hopeful = [kernels for kernels in look if kernels == default or look[kernels] < limit]
        length = len(features)
        while length > first and look[default] * length / first > _LONGEST:
            length //= 2
        steps = _steps(model, task.loss, features[:length], labels[:length], hopeful)
        taken = sampled(steps, clock)
    finally:
        model.load(start)
        model.module.train(was_training)
    best = min(taken, key=lambda kernels: median(taken[kernels]))
    clear = max(taken[best]) < min(taken[default])
    faster = median(taken[best]) < _GAIN * median(taken[default])
    return best if clear and faster else default


def sampled(
    ways: Mapping[Way, Callable[[], object]], clock: Clock = process_time
) -> dict[Way, list[float]]:
    """Seconds of the processor that each way takes, in a few samples, turn about."""
    first = {way: _seconds(step, clock) for way, step in ways.items()}
    repeats = {way: int(max(1.0, _SHORTEST / max(first[way], 1e-6))) for way in ways}
    taken: dict[Way, list[float]] = {way: [] for way in ways}
    for _ in range(_ROUNDS):
        for way, step in ways.items():
            taken[way].append(_seconds(step, clock, repeats[way]))
    return taken


def candidates(model: FlatModel, task: Task, default: Kernels) -> list[Kernels]:
    """What may be faster than the default, for this network and these samples."""
    found: list[Kernels] = ["native"] if default == "onednn" else ["onednn"]
    images = task.features.ndim == 4
    if images and any(isinstance(layer, nn.Conv2d) for layer in model.module.modules()):
        found.append("channels-last")
    return found


def _steps(
    model: FlatModel, loss: Loss, features: Tensor, labels: Tensor, wanted: list[Kernels]
) -> dict[Kernels, Callable[[], object]]:
    """A step with each of the kernels that the network can be trained with."""
    found: dict[Kernels, Callable[[], object]] = {}
    for kernels in wanted:
        step = partial(_step, model, loss, arranged(features, kernels), labels, kernels)
        try:
            step()
        except RuntimeError:  # a network may insist on how its images lie in memory
            if kernels == wanted[0]:
                raise
            continue
        found[kernels] = step
    return found


def _step(model: FlatModel, loss: Loss, features: Tensor, labels: Tensor, kernels: Kernels) -> None:
    with using(kernels):
        plain_gradient(model, loss, features, labels)


def _largest_batch(task: Task, model: FlatModel) -> tuple[Tensor, Tensor]:
    parts = task.batches.parts
    client = max(range(len(parts)), key=lambda one: len(parts[one]))
    return task.batch(client, 0, model.vector.dtype)


def _seconds(step: Callable[[], object], clock: Clock, repeats: int = 1) -> float:
    began = clock()
    for _ in range(repeats):
        step()
    return (clock() - began) / repeats
