"""Precision of products on a GPU.

Factors of float32 have mantissas of 10 bits (tf32) or 23 bits (float32); with bf16 activations and
products have 8 bits. Weights, sums, statistics and steps are float32 in all three cases.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from favano.types import Precision


@contextmanager
def product_precision(precision: Precision) -> Iterator[None]:
    """Compute products of float32 in this precision in a `with` block."""
    matrices, convolutions = torch.backends.cuda.matmul, torch.backends.cudnn
    before = matrices.allow_tf32, convolutions.allow_tf32
    matrices.allow_tf32 = convolutions.allow_tf32 = precision != "float32"
    try:
        yield
    finally:
        matrices.allow_tf32, convolutions.allow_tf32 = before


class HalfWeights:
    """A network's weights as bf16 in the forward pass; their gradients are float32.

    Frozen weights are made bf16 once, in the network itself.
    Layers with buffers keep float32 weights, whatever the type of the images, and so do layers with
    `casts_itself`.
    """

    def __init__(self, module: nn.Module) -> None:
        self._names = {
            f"{prefix}.{name}" if prefix else name
            for prefix, layer in module.named_modules()
            if not (getattr(layer, "casts_itself", False) or [*layer.buffers(recurse=False)])
            for name, _ in layer.named_parameters(recurse=False)
        }
        for name, parameter in module.named_parameters():
            if not parameter.requires_grad and name in self._names:
                parameter.data = parameter.data.bfloat16()

    def weights(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The weights of the forward pass."""
        return {
            name: value.bfloat16() if name in self._names else value
            for name, value in weights.items()
        }
