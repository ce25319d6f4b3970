"""How the work of a convolution is divided into programs. Measured on an H200."""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
from torch import Tensor

_PIXELS_OF_WEIGHTS = 4096  # pixels per program of the weights' gradient


class Blocks(NamedTuple):
    """The sizes of one program's work."""

    pixels: int  # at once
    stretch: int  # numbers of a row of taps at once
    filters: int
    warps: int
    stages: int  # of the pipeline of loads

    def settings(self) -> dict[str, int]:
        """Arguments of the kernels."""
        return {
            "PIXELS": self.pixels, "STRETCH": self.stretch, "FILTERS": self.filters,
            "num_warps": self.warps, "num_stages": self.stages,
        }  # fmt: skip

    def images(self, batch: int, pixels: int) -> int:
        """Number of images that a program sums over, given the pixels per image."""
        return min(batch, max(1, _PIXELS_OF_WEIGHTS // pixels))


def gather_blocks(inputs: int, outputs: int, size: int, dtype: torch.dtype) -> Blocks:
    """Blocks of the convolution and of the gradient of its images."""
    filters = _power(outputs, 256)
    warps = 8 if filters == 256 else 4
    if inputs < 16:
        return Blocks(128, _power(size * inputs, 32), filters, warps, stages=1)
    if dtype == torch.bfloat16:
        return Blocks(128 if filters > 16 else 256, _power(inputs, 64), filters, warps, stages=3)
    return Blocks(128, _power(inputs, 32), filters, warps, stages=3)


def weights_blocks(length: int, outputs: int, dtype: torch.dtype) -> Blocks:
    """Blocks of the gradient of the weights; `length` numbers are contiguous in memory."""
    filters = _power(outputs, 128)
    if dtype == torch.bfloat16:
        return Blocks(64, _power(length, 64), filters, min(4, filters // 16), stages=3)
    # Products of two transposed TF32 matrices are fast only if they are small.
    stretch = _power(length, 32 if filters == 128 else 16)
    return Blocks(32, stretch, filters, max(1, filters // 32), stages=3)


def _power(numbers: int, most: int) -> int:
    """The next power of two that fits a tensor core."""
    return min(most, max(16, int(triton.next_power_of_2(numbers))))


def channels_last(images: Tensor) -> Tensor:
    """(L, B, C, H, W) as contiguous (L, B, H, W, C); copied only if necessary."""
    return images.movedim(2, -1).contiguous()
