"""The gradient of a batch by autograd, as one would write it by hand."""

from __future__ import annotations

import torch
from torch import Tensor

from favano.training.flat import FlatModel
from favano.training.task import Loss


def plain_gradient(model: FlatModel, loss: Loss, features: Tensor, labels: Tensor) -> None:
    """Fill the model's `gradient`; in training mode its buffers move."""
    model.gradient.zero_()
    with torch.enable_grad():
        with model.drawing():
            value = loss(model.module(features), labels)
        torch.autograd.backward(value)
