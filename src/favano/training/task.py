"""The learning task of the clients: samples, labels, mini-batches and the loss."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias, cast

import torch
from torch import Tensor
from torch.nn import functional

from favano.data import BatchStream, Preprocessing
from favano.data.transforms import augment, augmentation_draws, to_float
from favano.errors import BadInput, need
from favano.rng import Stream, word
from favano.training.draw_check import find_draws
from favano.training.flat import FlatModel

Loss: TypeAlias = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class Task:
    """All clients' training data on one device.

    With `preprocessing`, `features` are raw images, which are augmented batch by batch; without it,
    they are the inputs of the model.
    """

    features: Tensor  # (N, ...)
    labels: Tensor  # (N,)
    batches: BatchStream
    loss: Loss = functional.cross_entropy
    preprocessing: Preprocessing | None = None

    def batch(
        self, client: int, step: int, dtype: torch.dtype, room: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """The mini-batch at a position of the client's stream: a function of seed, client, step.

        With `room` (from `self.room()`) the samples are written there, and replaced by the next.
        """
        device = self.features.device
        chosen = torch.from_numpy(self.batches.indices(client, step)).to(device)
        if room is None:
            features = self.features.index_select(0, chosen)
        else:
            features = torch.index_select(self.features, 0, chosen, out=room[: len(chosen)])
        labels = self.labels.index_select(0, chosen)
        if self.preprocessing is None:
            return features, labels
        if self.preprocessing.augments:
            stream = self.batches.stream(client)
            draws = augmentation_draws(self.batches.seed, stream, step, len(chosen))
            draw = torch.from_numpy(draws).to(device, torch.float32)
            features = augment(features, self.preprocessing, draw)
        return to_float(features, self.preprocessing, dtype), labels

    def key(self, client: int, step: int) -> int:
        """The key for quantised gradients and dropout, a function of (seed, client, step)."""
        return word(self.batches.seed, Stream.LUQ, self.batches.stream(client), step)

    def room(self) -> Tensor:
        """Memory for one batch of samples."""
        return self.features.new_empty((self.batches.batch_size, *self.features.shape[1:]))


def check_inputs(model: FlatModel, features: Tensor, what: str) -> Tensor:
    """The outputs for two of these inputs; refused where the model cannot take them."""
    was_training = model.module.training
    try:
        with torch.no_grad():
            return cast(Tensor, model.module.eval()(features[:2]))
    except (RuntimeError, ValueError, TypeError) as error:
        shape, problem = tuple(features.shape[1:]), str(error).splitlines()[0]
        rule = f"cannot take {what} of shape {shape}: {problem}"
        raise BadInput("model", type(model.module).__name__, rule) from error
    finally:
        model.module.train(was_training)


def plain_gradient(model: FlatModel, loss: Loss, features: Tensor, labels: Tensor) -> None:
    """Fill the model's `gradient` by autograd; in training mode this updates its buffers."""
    model.gradient.zero_()
    with torch.enable_grad():
        with model.drawing():
            value = loss(model.module(features), labels)
        torch.autograd.backward(value)


def check_fit(model: FlatModel, task: Task, classes: int) -> None:
    """Refuse a model that does not fit the labels, before any training.

    Also refuses a model that draws random numbers other than by dropout (`draw_check`).
    """
    name = type(model.module).__name__
    features, labels = task.batch(0, 0, model.vector.dtype)
    output = check_inputs(model, features, "a batch of inputs")
    fits = output.ndim == 2 and output.shape[1] >= classes
    need(fits, "model", name, f"gives {tuple(output.shape[1:])} outputs, labels need {classes}")
    if not model.draws_checked:
        find_draws(model, task.loss, (features, labels))
