"""With which numbers a GPU trains."""

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
    """Products of float32 in this precision while it lasts; it is the process's own outside."""
    matrices, convolutions = torch.backends.cuda.matmul, torch.backends.cudnn
    before = matrices.allow_tf32, convolutions.allow_tf32
    matrices.allow_tf32 = convolutions.allow_tf32 = precision != "float32"
    try:
        yield
    finally:
        matrices.allow_tf32, convolutions.allow_tf32 = before


class HalfWeights:
    """A network's weights as bf16 in the forward pass; their gradients come back in float32.

    Layers with buffers compute in float32 by themselves whatever the images are made of, and so do
    those that say `casts_itself`.
    """

    def __init__(self, module: nn.Module) -> None:
        self._names = {
            f"{prefix}.{name}" if prefix else name
            for prefix, layer in module.named_modules()
            if not (getattr(layer, "casts_itself", False) or [*layer.buffers(recurse=False)])
            for name, _ in layer.named_parameters(recurse=False)
        }

    def weights(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The weights to go forward with."""
        return {
            name: value.bfloat16() if name in self._names else value
            for name, value in weights.items()
        }
