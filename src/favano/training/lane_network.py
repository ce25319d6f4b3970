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
from favano.training.lane_state import LaneState
from favano.training.roster import Roster
from favano.training.task import Task
from favano.types import Precision

Descent: TypeAlias = Callable[[Tensor, Tensor, Tensor], None]  # weights, gradients, rates


# At most so many steps of each lane whose rule is number 0.
WholeSteps: TypeAlias = Callable[[LaneState, int], None]


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


def whole_steps(
    model: FlatModel,
    task: Task,
    roster: Roster,
    slots: int,
    precision: Precision,
) -> WholeSteps | None:
    """A kernel for whole steps of plain SGD with cross-entropy, if there is one.

    It needs tensor cores: exact products are faster one after the other.

    Args:
        model: the lanes train copies of it.
        task: its samples are inputs, or bytes that are scaled.
        roster: the clients.
        slots: epochs whose orders a lane keeps.
        precision: of products.
    """
    if precision == "float32" or not has_kernels(model.vector):
        return None
    from favano.training.gpu_kernels import perceptron_steps  # needs triton

    return perceptron_steps(model.module, task, roster, slots, precision)
