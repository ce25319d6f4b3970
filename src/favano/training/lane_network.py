"""The network of the lanes and its steps, with our own kernels where there are any."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from importlib.util import find_spec
from typing import TypeAlias

import torch
from torch import Tensor, nn

from favano.training.flat import FlatModel
from favano.training.lane_recurrence import with_lane_recurrence

Descent: TypeAlias = Callable[[Tensor, Tensor, Tensor], None]  # weights, gradients, rates


def has_kernels(weights: Tensor) -> bool:
    """Whether there are kernels for such weights: float32 on CUDA, with Triton."""
    return weights.is_cuda and weights.dtype == torch.float32 and find_spec("triton") is not None


def lane_network(model: FlatModel) -> tuple[nn.Module, Descent | None]:
    """The network in training mode, and a kernel for its steps if there is one."""
    module = deepcopy(model.module).train()
    if has_kernels(model.vector):
        from favano.training.gpu_kernels import descend, fused_lstm, with_kernels  # need triton

        return with_kernels(with_lane_recurrence(module, fused_lstm)), descend
    return with_lane_recurrence(module), None
