"""Precision of training on a GPU."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from favano.types import Precision

# Products of float32 with mantissas of 10 bits, or of 23; or activations and products of 8 bits.
# Weights, sums, statistics and steps are float32 in all three.


@contextmanager
def product_precision(precision: Precision) -> Iterator[None]:
    """Use this precision for products of float32 within the block."""
    matrices, convolutions = torch.backends.cuda.matmul, torch.backends.cudnn
    before = matrices.allow_tf32, convolutions.allow_tf32
    matrices.allow_tf32 = convolutions.allow_tf32 = precision != "float32"
    try:
        yield
    finally:
        matrices.allow_tf32, convolutions.allow_tf32 = before


class HalfWeights:
    """Weights of a network as bf16 in the forward pass; their gradients are float32.

    Layers with buffers compute in float32 whatever their inputs, and so do those that declare
    `casts_itself`.
    """

    def __init__(self, module: nn.Module) -> None:
        self._names = {
            f"{prefix}.{name}" if prefix else name
            for prefix, layer in module.named_modules()
            if not (getattr(layer, "casts_itself", False) or [*layer.buffers(recurse=False)])
            for name, _ in layer.named_parameters(recurse=False)
        }

    def weights(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The weights for the forward pass."""
        return {
            name: value.bfloat16() if name in self._names else value
            for name, value in weights.items()
        }
