"""The learning task of the clients: samples, targets, mini-batches and the loss."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import TypeAlias

import torch
from torch import Tensor
from torch.nn import functional

from favano.data import BatchStream, Preprocessing
from favano.data.transforms import augment, augmentation_draws, to_float
from favano.rng import Stream, word
from favano.training.flat import FlatModel
from favano.training.objective import Loss
from favano.types import Ints

Batch: TypeAlias = tuple[Tensor, Tensor]  # inputs of the model, and labels

_AT_ONCE = 2**23  # bytes of samples that are copied at once
_ALIGNMENT = 64  # bytes; PyTorch's own tensors begin at multiples of it


@dataclass(frozen=True, eq=False)
class Task:
    """All clients' training data on one device.

    With `preprocessing`, `features` are raw images, which are prepared batch by batch; without it,
    they are the inputs of the model.
    """

    features: Tensor  # (N, ...)
    labels: Tensor  # (N, ...), targets of any kind
    batches: BatchStream
    loss: Loss = functional.cross_entropy
    preprocessing: Preprocessing | None = None

    def batch(self, client: int, step: int, dtype: torch.dtype) -> Batch:
        """The mini-batch at a position of the client's stream: a function of seed, client, step."""
        return next(self._batches(client, range(step, step + 1), dtype))

    def runs(
        self, client: int, first_step: int, steps: int, dtype: torch.dtype
    ) -> Iterator[list[Batch]]:
        """The mini-batches of successive steps, in lists of batches of one length."""
        most, last = self._most_at_once(dtype), first_step + steps
        for begin in range(first_step, last, most):
            together = self._batches(client, range(begin, min(begin + most, last)), dtype)
            for _, run in groupby(together, lambda batch: len(batch[1])):
                yield list(run)

    def samples(self, places: Ints, dtype: torch.dtype) -> Batch:
        """The samples at these places of the training set, not augmented."""
        chosen = torch.from_numpy(places).to(self.features.device)
        features, labels = self.features[chosen], self.labels[chosen]
        if self.preprocessing is not None:
            features = to_float(features, self.preprocessing, dtype)
        return features, labels

    def _batches(self, client: int, steps: range, dtype: torch.dtype) -> Iterator[Batch]:
        """Mini-batches whose samples are copied at once, which is faster than one by one."""
        indices = self.batches.indices(client, steps.start, len(steps))
        chosen = torch.from_numpy(indices).to(self.features.device)
        lengths = [self.batches.length(client, step) for step in steps]
        samples = torch.split(self.features.index_select(0, chosen), lengths)
        labels = torch.split(self.labels.index_select(0, chosen), lengths)
        for step, sample, label in zip(steps, samples, labels, strict=True):
            yield self._inputs(sample, client, step, dtype), label

    def _inputs(self, features: Tensor, client: int, step: int, dtype: torch.dtype) -> Tensor:
        """Inputs of the model from the samples of a mini-batch."""
        if self.preprocessing is None:
            return features
        if self.preprocessing.augments:
            stream = self.batches.stream(client)
            draws = augmentation_draws(self.batches.seed, stream, step, len(features))
            draw = torch.from_numpy(draws).to(features.device, torch.float32)
            features = augment(features, self.preprocessing, draw)
        return to_float(features, self.preprocessing, dtype)

    def _most_at_once(self, dtype: torch.dtype) -> int:
        """The most mini-batches whose samples are copied at once."""
        number = self.features.dtype if self.preprocessing is None else dtype
        sample = self.features[0].numel() * number.itemsize
        if self.preprocessing is None and sample % _ALIGNMENT:
            return 1  # kernels may round differently for inputs that are not aligned
        return max(1, _AT_ONCE // (sample * self.batches.batch_size))

    def key(self, client: int, step: int) -> int:
        """The key for quantised gradients and dropout, a function of (seed, client, step)."""
        return word(self.batches.seed, Stream.LUQ, self.batches.stream(client), step)


def plain_gradient(model: FlatModel, loss: Loss, features: Tensor, labels: Tensor) -> Tensor:
    """Fill the model's `gradient` by autograd, and return the loss.

    In training mode this updates its buffers.
    """
    model.gradient.zero_()
    with torch.enable_grad():
        with model.drawing():
            value = loss(model.outputs(features), labels)
        torch.autograd.backward(value)
    return value.detach()
