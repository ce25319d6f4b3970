"""The network of the lanes and its steps, with our own kernels where there are any."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib.util import find_spec
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from favano.training.dropout import KeyedDropout
from favano.training.flat import FlatModel
from favano.training.lane_recurrence import with_lane_recurrence
from favano.training.objective import Objective

if TYPE_CHECKING:  # needs triton
    from favano.training.gpu_kernels import Descent, LaneBatchNorm


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
        from favano.training.gpu_kernels import Descent, fused_lstm, with_kernels  # need triton

        objective.network = with_kernels(with_lane_recurrence(network, fused_lstm))
        return objective, Descent(model.parameter_sizes, model.vector.device)
    with_lane_recurrence(network)
    return objective, None


def batch_normalisations(network: nn.Module, weights: Tensor) -> Mapping[str, LaneBatchNorm]:
    """The layers, by name, that take the number of real images of a mini-batch as `samples`.

    They move their running statistics where they are.
    """
    if not has_kernels(weights):
        return {}
    from favano.training.gpu_kernels import LaneBatchNorm  # needs triton

    layers = network.named_modules()
    return {name: layer for name, layer in layers if isinstance(layer, LaneBatchNorm)}


@contextmanager
def counting(layers: Mapping[str, LaneBatchNorm], samples: Tensor | None) -> Iterator[None]:
    """Let these layers normalise by the first `samples` of a mini-batch; None: by all."""
    for layer in layers.values():
        layer.samples = samples
    try:
        yield
    finally:
        for layer in layers.values():
            layer.samples = None


def lane_functions(weights: Tensor, dropout: KeyedDropout | None) -> AbstractContextManager[object]:
    """While it is active, functions that have kernels for such weights call these."""
    if not has_kernels(weights):
        return nullcontext()
    from favano.training.gpu_kernels import LaneFunctions  # needs triton

    return LaneFunctions(dropout)
