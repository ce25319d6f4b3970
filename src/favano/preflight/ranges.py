"""A check of tokens and labels before any training: the network and the loss must take them all."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from favano.errors import BadInput, format_error
from favano.training import FlatModel, Task
from favano.training.calling import Field, unpacked
from favano.training.task import Batch

_MOST = 2**32  # bytes that are looked through; a larger file would take minutes


def check_range(flat: FlatModel, task: Task, test: Batch) -> None:
    """Refuse whole numbers that an embedding or the loss does not take.

    Otherwise only the batch that holds one of them would fail, in the middle of a run.
    """
    dtype = flat.vector.dtype
    fields, size = flat.objective.calling.fields, task.batches.batch_size
    inputs = _parts(task.features, fields) if task.preprocessing is None else []
    places = _extremes(size, *inputs, task.labels)
    _check(flat, task, "train", task.samples(np.array(places, dtype=np.int64), dtype))
    features, labels = test
    places = _extremes(size, *_parts(features, fields), labels)
    _check(flat, task, "test", (features[places], labels[places]))


def _parts(inputs: Tensor, fields: Sequence[Field]) -> list[Tensor]:
    """The several inputs of a network, without a copy as long as they are large."""
    return unpacked(inputs, fields) if fields and inputs.nbytes <= _MOST else [inputs]


def _extremes(size: int, *parts: Tensor) -> list[int]:
    """The samples with the smallest and the largest whole numbers of each part, in a batch."""
    places: list[int] = []
    for part in parts:
        if part.is_floating_point() or part.is_complex() or part.nbytes > _MOST:
            continue
        each, numbers = part[0].numel(), part.to(torch.uint8) if part.dtype == torch.bool else part
        places += [int(numbers.argmin()) // each, int(numbers.argmax()) // each]
    count = max(len(part) for part in parts)
    return [*places, *range(min(size, count))] if places else []


def _check(flat: FlatModel, task: Task, name: str, batch: Batch) -> None:
    """Refuse a network or a loss that fails on these samples of `name`."""
    inputs, targets = batch
    if not len(targets):
        return
    module, loss = flat.module.eval(), task.loss
    who, what = type(module).__name__, f"inputs of {name}{_range(inputs)}"
    key, next_what = "model", f"targets of {name}{_range(targets)}"
    try:
        with torch.no_grad():
            output = flat.outputs(inputs)
            output.isfinite().all().item()  # a GPU reports errors when it is waited for
            key, who, what = "loss", getattr(loss, "__name__", type(loss).__name__), next_what
            with torch.enable_grad():
                loss(output, targets).item()
    except Exception as error:
        raise BadInput(key, who, f"cannot take {what}: {format_error(error)}") from error


def _range(values: Tensor) -> str:
    """The numbers in words; before anything fails, since a GPU does nothing more afterwards."""
    return "" if values.is_complex() else f" from {values.min()} to {values.max()}"
