"""The network of the lanes and its steps, with our own kernels where there are any."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import TypeAlias

import torch
from torch import Tensor

from favano.training.flat import FlatModel
from favano.training.lane_recurrence import with_lane_recurrence
from favano.training.objective import Objective

Descent: TypeAlias = Callable[[Tensor, Tensor, Tensor], None]  # weights, gradients, rates


def has_kernels(weights: Tensor) -> bool:
    """Whether there are kernels for such weights: float32 on CUDA, with Triton."""
    return weights.is_cuda and weights.dtype == torch.float32 and find_spec("triton") is not None


def lane_objective(model: FlatModel) -> tuple[Objective, Descent | None]:
    """Network and loss in training mode, and a kernel for its steps if there is one."""
    objective = model.objective.copied()
    network = objective.network.train()
    hooks = any(layer._backward_hooks or layer._backward_pre_hooks for layer in network.modules())
    if hooks or model.hooks_inside:
        # Refused, since lanes would leave them out and train something else in silence.
        raise ValueError("hooks on layers or activations are not called in its backward passes")
    if has_kernels(model.vector):
        from favano.training.gpu_kernels import descend, fused_lstm, with_kernels  # need triton

        objective.network = with_kernels(with_lane_recurrence(network, fused_lstm))
        return objective, descend
    with_lane_recurrence(network)
    return objective, None
