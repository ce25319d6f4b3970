"""Normalisation layers: batch normalisation without a counter, and group normalisation.

A layer updates its running statistics in place, as PyTorch's own does. With `torch.func`, clone
the buffers inside the transformed function and return them:

    def loss(parameters, buffers, images, labels):
        buffers = {name: value.clone() for name, value in buffers.items()}
        logits = functional_call(module, (parameters, buffers), (images,))
        return cross_entropy(logits, labels), buffers

    gradients, buffers = vmap(grad(loss, has_aux=True))(parameters, buffers, images, labels)
"""

from __future__ import annotations

from typing import Literal, Protocol, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional

from favano.errors import require

Norm: TypeAlias = Literal["batch", "group"]

_MOMENTUM = 0.1
_EPSILON = 1e-5
_MOST_GROUPS = 32


def _rectified(self: nn.Module, inputs: Tensor, residual: Tensor | None = None) -> Tensor:
    """relu(norm(inputs) + residual)."""
    normalised: Tensor = self(inputs)
    return functional.relu(normalised if residual is None else normalised + residual)


class BatchNorm2d(nn.Module):
    """Batch normalisation (Ioffe and Szegedy 2015) over (B, H, W) for each channel.

        y = weight (x - mean) / sqrt(var + 1e-5) + bias

    Training uses the mean and the biased variance of the batch, and moves the running mean and the
    running unbiased variance a tenth of the way; evaluation uses the running ones.

    Differs from `nn.BatchNorm2d` in two ways. There is no integer counter, so all buffers can be
    averaged. A training batch with one value per channel has no variance: it is normalised by the
    running statistics, which stay as they are; PyTorch raises an error.
    """

    rectified = _rectified

    running_mean: Tensor
    running_var: Tensor

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))
        self.momentum, self.epsilon = _MOMENTUM, _EPSILON

    def forward(self, inputs: Tensor) -> Tensor:
        """Normalise (B, C, H, W)."""
        training = self.training and inputs.numel() > inputs.shape[1]
        statistics = self.running_mean, self.running_var
        return functional.batch_norm(
            inputs, *statistics, self.weight, self.bias, training, self.momentum, self.epsilon
        )


class GroupNorm(nn.GroupNorm):
    """Group normalisation (Wu and He 2018), without buffers.

    A group has two channels, or more if there would be more than 32 groups.
    """

    rectified = _rectified

    def __init__(self, channels: int) -> None:
        super().__init__(min(_MOST_GROUPS, channels // 2), channels, eps=_EPSILON)


class Normalisation(Protocol):
    """A layer that normalises and rectifies; a GPU kernel does both at once."""

    def rectified(self, inputs: Tensor, residual: Tensor | None = None) -> Tensor:
        """relu(norm(inputs) + residual)."""


def normalisation(norm: Norm, channels: int) -> BatchNorm2d | GroupNorm:
    """A layer for `channels` channels."""
    require(norm in ("batch", "group"), "norm", norm, "need batch or group")
    return BatchNorm2d(channels) if norm == "batch" else GroupNorm(channels)
