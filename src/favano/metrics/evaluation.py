"""Loss and accuracy of a model on the test set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.func import functional_call, vmap

from favano.training import FlatModel, Loss
from favano.types import Stack, Vector

_NUMBERS = 1 << 23  # of the inputs in one batch
_TOGETHER = 1 << 28  # of the inputs of all models that go through at once
_PASSES = 60  # 0.9^60 is 0.002


class Score(NamedTuple):
    """Mean loss, and the share of samples classified correctly."""

    loss: float
    accuracy: float


@dataclass(frozen=True, eq=False)
class Evaluator:
    """Scores flat models on fixed data, in evaluation mode, in large batches."""

    model: FlatModel
    features: Tensor  # (M, ...) as the model takes them
    labels: Tensor  # (M,)
    loss: Loss
    calibration: Tensor | None = None  # inputs to estimate the model's buffers from

    def __call__(self, vector: Vector) -> Score:
        """Score one model."""
        loss, accuracy = self.measure(vector).tolist()
        return Score(loss, accuracy)

    def measure(self, vector: Vector) -> Tensor:
        """Mean loss and accuracy, (2,), on the device; nothing is waited for."""
        self.model.load(vector)
        if self.calibration is not None:
            self._estimate_buffers(self.calibration)
        self.model.module.eval()
        loss = torch.zeros((), device=self.labels.device, dtype=torch.float64)
        correct = torch.zeros((), device=self.labels.device, dtype=torch.int64)
        with torch.no_grad():
            batch = self._batch
            for first in range(0, len(self.labels), batch):
                labels = self.labels[first : first + batch]
                output = self.model.module(self.features[first : first + batch])
                loss += self.loss(output, labels).double() * len(labels)
                correct += (output.argmax(dim=1) == labels).sum()
        return torch.stack([loss, correct.double()]) / len(self.labels)

    def measure_all(self, vectors: Stack) -> Tensor:
        """Of many models, (k, 2).

        Where the test set is one batch, a model by itself leaves a GPU idle most of the time: there
        many go through at once.
        """
        if self.calibration is not None or len(self.labels) > self._batch:
            return torch.stack([self.measure(vector) for vector in vectors])
        at_once = max(1, _TOGETHER // max(1, self.features.numel()))
        return torch.cat([self._measure_together(part) for part in torch.split(vectors, at_once)])

    def _measure_together(self, vectors: Stack) -> Tensor:
        """Of models that go through at once."""
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
        """Let running statistics settle on one batch; a pass moves them a tenth of the way."""
        model, device = self.model, self.model.vector.device
        model.module.train()
        with torch.no_grad():
            for number in range(_PASSES):
                if model.draws is not None:
                    model.draws.set(number, device)
                with model.drawing():
                    model.module(inputs)
