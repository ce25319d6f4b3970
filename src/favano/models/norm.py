"""Normalisation layers: batch normalisation without a counter, and group normalisation.

How a caller of `torch.func` gets the new running statistics: the layer updates its buffers in
place, as PyTorch's own does, so pass clones made inside the transformed function and return them:

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

from favano.errors import BadInput

Norm: TypeAlias = Literal["batch", "group"]

_MOMENTUM = 0.1
_EPSILON = 1e-5
_MOST_GROUPS = 32


class BatchNorm2d(nn.Module):
    """Batch normalisation (Ioffe and Szegedy 2015) over (B, H, W) for each channel.

        y = weight (x - mean) / sqrt(var + 1e-5) + bias

    Training takes mean and (biased) variance from the batch and moves the running ones a tenth of
    the way, the variance in its unbiased form; evaluation takes the running ones.

    Differs from `nn.BatchNorm2d` in having no integer counter, so that all its buffers can be
    averaged, and in a training batch with one value per channel: such a batch has no variance, so
    it is normalised by the running statistics and leaves them alone; PyTorch raises.
    """

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
        has_variance = inputs.numel() > inputs.shape[1]
        return functional.batch_norm(
            inputs,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            training=self.training and has_variance,
            momentum=self.momentum,
            eps=self.epsilon,
        )

    def rectified(self, inputs: Tensor, residual: Tensor | None = None) -> Tensor:
        """relu(norm(inputs) + residual)."""
        return _rectified(self(inputs), residual)


class GroupNorm(nn.GroupNorm):
    """Group normalisation (Wu and He 2018): no buffers.

    Groups hold two channels, or more where that would make more than 32 groups.
    """

    def __init__(self, channels: int) -> None:
        super().__init__(min(_MOST_GROUPS, channels // 2), channels, eps=_EPSILON)

    def rectified(self, inputs: Tensor, residual: Tensor | None = None) -> Tensor:
        """relu(norm(inputs) + residual)."""
        return _rectified(self(inputs), residual)


class Normalisation(Protocol):
    """A layer that normalises, and rectifies on demand: the two together can be made faster."""

    def __call__(self, inputs: Tensor) -> Tensor:
        """Normalise."""

    def rectified(self, inputs: Tensor, residual: Tensor | None = None) -> Tensor:
        """relu(norm(inputs) + residual)."""


def _rectified(normalised: Tensor, residual: Tensor | None) -> Tensor:
    return functional.relu(normalised if residual is None else normalised + residual)


def normalisation(norm: Norm, channels: int) -> BatchNorm2d | GroupNorm:
    """A layer for `channels` channels."""
    if norm == "batch":
        return BatchNorm2d(channels)
    if norm == "group":
        return GroupNorm(channels)
    raise BadInput("norm", norm, "need batch or group")
