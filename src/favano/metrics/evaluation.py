"""Loss and accuracy of a model on the test set."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor
from torch.func import functional_call, vmap

from favano.training import FlatModel, GraphCache, Loss
from favano.types import Stack, Vector

_NUMBERS = 1 << 23  # input numbers per batch
_TOGETHER = 1 << 28  # input numbers of all models that are scored at once
_PASSES = 60  # running statistics have weight 0.9^60 = 0.002 at the start


class Score(NamedTuple):
    """Mean loss, and share of samples that are classified correctly."""

    loss: float
    accuracy: float


@dataclass(frozen=True, eq=False)
class Evaluator:
    """Scores flat models on fixed data, in evaluation mode, in large batches."""

    model: FlatModel
    features: Tensor  # (M, ...) inputs of the model
    labels: Tensor  # (M,)
    loss: Loss
    calibration: Tensor | None = None  # inputs from which the model's buffers are estimated

    def __call__(self, vector: Vector) -> Score:
        """Score one model."""
        return Score(*self.measure(vector).tolist())

    def measure(self, vector: Vector) -> Tensor:
        """Mean loss and accuracy, (2,), without waiting for the device."""
        self.model.load(vector)
        if self.calibration is not None:
            self._estimate_buffers(self.calibration)
        self.model.module.eval()
        loss = torch.zeros((), device=self.labels.device, dtype=torch.float64)
        correct = torch.zeros((), device=self.labels.device, dtype=torch.int64)
        parts = (torch.split(one, self._batch) for one in (self.features, self.labels))
        with torch.no_grad():
            for features, labels in zip(*parts, strict=True):
                output = self.model.module(features)
                loss += self.loss(output, labels).double() * len(labels)
                correct += (output.argmax(dim=1) == labels).sum()
        return torch.stack([loss, correct.double()]) / len(self.labels)

    def measure_all(self, vectors: Stack) -> Tensor:
        """Mean loss and accuracy of many models, (k, 2).

        If the test set is one batch, many models are scored at once: one model would leave a GPU
        idle most of the time.
        """
        if self.calibration is not None or len(self.labels) > self._batch:
            return torch.stack([self.measure(vector) for vector in vectors])
        at_once = 1 << (max(1, _TOGETHER // max(1, self.features.numel())).bit_length() - 1)
        return torch.cat([self._captured(part) for part in torch.split(vectors, at_once)])

    def _captured(self, vectors: Stack) -> Tensor:
        """The same for models that are scored at once; on CUDA by a graph."""
        if not vectors.is_cuda:
            return self._measure_together(vectors)
        number = len(vectors)
        size = 1 << (number - 1).bit_length()  # few sizes; the last model is scored repeatedly
        rows = torch.arange(size, device=vectors.device).clamp_(max=number - 1)
        return self._graphs.run(size, self._measure_together, vectors[rows])[:number].clone()

    @cached_property
    def _graphs(self) -> GraphCache:
        return GraphCache()

    def _measure_together(self, vectors: Stack) -> Tensor:
        """Score models without a graph."""
        module, parameters = self.model.module.eval(), self.model.layout.parameters
        named = self.model.named(vectors[:, :parameters], vectors[:, parameters:])

        def score(*model: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
            output = functional_call(module, model, (self.features,))
            return self.loss(output, self.labels), output.argmax(dim=1) == self.labels

        with torch.no_grad():
            loss, correct = vmap(score)(*named)
        return torch.stack([loss.double(), correct.double().mean(dim=1)], dim=1)

    @property
    def _batch(self) -> int:
        """Samples in one batch."""
        return max(1, _NUMBERS // max(1, self.features[:1].numel()))

    def _estimate_buffers(self, inputs: Tensor) -> None:
        """Pass one batch through the model until the running statistics are those of the batch."""
        model = self.model
        model.module.train()
        with torch.no_grad():
            for number in range(_PASSES):
                if model.draws is not None:
                    model.draws.set(number, model.vector.device)
                with model.drawing():
                    model.module(inputs)
