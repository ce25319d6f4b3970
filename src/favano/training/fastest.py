"""The network that a stack of lanes trains."""

from __future__ import annotations

from copy import deepcopy
from importlib.util import find_spec

import torch
from torch import nn

from favano.training.flat import FlatModel


def fastest(model: FlatModel) -> nn.Module:
    """The network in training mode, with our own kernels where they serve: float32 on CUDA."""
    if model.vector.is_cuda and model.vector.dtype == torch.float32 and find_spec("triton"):
        from favano.kernels import for_lanes  # triton comes with CUDA builds of torch only

        return for_lanes(model.module)
    return deepcopy(model.module).train()
