"""The learning task of the clients: samples, targets, mini-batches and the loss."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import TypeAlias, cast

import torch
from torch import Tensor
from torch.nn import functional

from favano.data import BatchStream, Preprocessing
from favano.data.transforms import augment, augmentation_draws, to_float
from favano.errors import BadInput, format_error, require
from favano.rng import Stream, word
from favano.training.draw_check import find_draws
from favano.training.flat import FlatModel
from favano.training.objective import Loss
from favano.types import Ints

Batch: TypeAlias = tuple[Tensor, Tensor]  # inputs of the model, and labels

_AT_ONCE = 2**23  # bytes of samples that are copied at once
_SUM = "returns the sum over a batch, need the mean"
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


def check_inputs(model: FlatModel, features: Tensor, what: str) -> Tensor:
    """The outputs for two of these inputs; refused where the model cannot take them."""
    name = type(model.module).__name__
    try:
        with model.unchanged(), torch.no_grad():
            output = model.module.eval()(features[:2].clone())
    except Exception as error:
        rule = f"cannot take {what} of shape {tuple(features.shape[1:])}: {format_error(error)}"
        raise BadInput("model", name, rule) from error
    rule = f"gives {type(output).__name__}, need one tensor with an output for each sample"
    fits = isinstance(output, Tensor) and output.shape[:1] == features[:2].shape[:1]
    require(fits, "model", name, rule)
    return cast(Tensor, output)


def plain_gradient(model: FlatModel, loss: Loss, features: Tensor, labels: Tensor) -> None:
    """Fill the model's `gradient` by autograd; in training mode this updates its buffers."""
    model.gradient.zero_()
    with torch.enable_grad():
        with model.drawing():
            value = loss(model.module(features), labels)
        torch.autograd.backward(value)


def check_fit(model: FlatModel, task: Task, classes: int) -> None:
    """Refuse a model or a loss that does not fit the targets, before any training.

    Also refuses a model that draws random numbers other than by dropout (`draw_check`). `classes`
    is the number of classes among the targets, or 0.
    """
    name = type(model.module).__name__
    require(bool(model.trained), "model", name, "has no parameter that is trained (requires_grad)")
    features, labels = task.batch(0, 0, model.vector.dtype)
    output = check_inputs(model, features, "a batch of inputs")
    if classes:
        shape = f"labels of shape {tuple(labels.shape[1:])}"
        rule = (
            "need one class per sample, as y.squeeze(1), or y.argmax(1) of one-hot rows; other "
            "targets than classes need loss= and metrics="
        )
        require(labels.ndim == 1 or output.ndim != 2, "train", shape, rule)
        fits = output.ndim == labels.ndim + 1 and output.shape[1] >= classes
        rule = f"gives {tuple(output.shape[1:])} outputs, labels need {classes}"
        require(fits, "model", name, f"{rule}; other targets than classes need loss= and metrics=")
    if not model.draws_checked:
        _check_loss(model, task.loss, features, labels)
        find_draws(model, task.loss, (features, labels))


def check_single(model: FlatModel, task: Task) -> None:
    """Refuse a network that cannot train on one sample, as BatchNorm cannot, if a batch has one."""
    if 1 not in task.batches.lengths():
        return
    features, _ = task.batch(0, 0, model.vector.dtype)
    try:
        with model.unchanged(), torch.no_grad(), model.drawing():
            model.module.train()(features[:1])
    except Exception as error:
        rule = f"cannot train on a batch of one sample, which a client has: {format_error(error)}"
        advice = "; choose another batch_size, or batch_order=continuous"
        raise BadInput("model", type(model.module).__name__, rule + advice) from error


def _check_loss(model: FlatModel, loss: Loss, features: Tensor, targets: Tensor) -> None:
    """Refuse a loss that raises, that is not one number, or that has no gradient."""
    name = getattr(loss, "__name__", type(loss).__name__)
    with torch.enable_grad(), model.unchanged():
        output = model.module.eval()(features.clone())
        given, wanted = tuple(output.shape[1:]), tuple(targets.shape[1:])
        shapes = f"outputs of shape {given} and targets of shape {wanted}"
        column = {given, wanted} == {(1,), ()} and targets.is_floating_point()
        require(not column, "loss", name, f"would pair every output with every target: {shapes}")
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message="Using a target size")
            try:
                value = loss(output, targets.clone())
            except Exception as error:
                rule = f"cannot take {shapes}: {format_error(error)}"
                raise BadInput("loss", name, rule) from error
        scalar = isinstance(value, Tensor) and value.ndim == 0
        kind = f"a tensor of shape {tuple(value.shape)}" if isinstance(value, Tensor) else value
        rule = f"returns {kind}, need a tensor with one number, the mean over a batch"
        require(scalar, "loss", name, rule)
        rule = "has outputs without a gradient: they were detached, or made under no_grad"
        require(output.requires_grad, "model", type(model.module).__name__, rule)
        rule = "has no gradient: it does not depend on the outputs"
        require(value.requires_grad, "loss", name, rule)
        require(not _is_sum(loss, output.detach(), targets), "loss", name, _SUM)


def _is_sum(loss: Loss, output: Tensor, targets: Tensor) -> bool:
    """Whether a loss grows as the number of samples, at two and three times as many.

    The logarithm in a contrastive loss may grow as two does, but not as three.
    """
    try:
        values = [
            loss(torch.cat([output] * times), torch.cat([targets] * times)).detach()
            for times in (1, 2, 3)
        ]
    except Exception:  # it takes batches of one size
        return False
    first = values[0]
    grows = (torch.isclose(v, t * first, rtol=1e-3) for t, v in enumerate(values, 1))
    return bool(first.isfinite()) and bool(first != 0) and all(map(bool, grows))
