"""Loss and accuracy of a model on the test set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from favano.training import FlatModel, Loss
from favano.types import Vector

_NUMBERS = 1 << 23  # of the inputs in one batch
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
            batch = max(1, _NUMBERS // max(1, self.features[:1].numel()))
            for first in range(0, len(self.labels), batch):
                labels = self.labels[first : first + batch]
                output = self.model.module(self.features[first : first + batch])
                loss += self.loss(output, labels).double() * len(labels)
                correct += (output.argmax(dim=1) == labels).sum()
        return torch.stack([loss, correct.double()]) / len(self.labels)

    def _estimate_buffers(self, inputs: Tensor) -> None:
        """Let running statistics settle on one batch; a pass moves them a tenth of the way."""
        self.model.module.train()
        with torch.no_grad():
            for _ in range(_PASSES):
                self.model.module(inputs)
