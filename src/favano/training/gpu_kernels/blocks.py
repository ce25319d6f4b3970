"""How the work of a convolution is divided into programs. Measured on an H200."""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
from torch import Tensor
from torch.nn import functional

_PIXELS_OF_WEIGHTS = 4096  # pixels per program of the weights' gradient
_FEW_CHANNELS = 32  # up to here, results are computed in squares
_ALIGNED = 4  # numbers that are read at once at least


class Blocks(NamedTuple):
    """The sizes of one program's work."""

    pixels: int  # at once
    stretch: int  # numbers under the taps at once
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


def square_side(inputs: int, outputs: int, size: int, stride: int, result: tuple[int, int]) -> int:
    """Side of the squares of pixels in which results are computed."""
    few = max(inputs, outputs) <= _FEW_CHANNELS and size == 3 and stride == 1
    return 2 if few and not any(length % 2 for length in result) else 1


def gather_blocks(inputs: int, outputs: int, size: int, side: int, dtype: torch.dtype) -> Blocks:
    """Blocks of the convolution and of the gradient of its images."""
    filters = _power(outputs * side**2, 256)
    warps = 8 if filters == 256 else 4
    half = dtype == torch.bfloat16
    if side > 1:
        return Blocks(128, _power((size + side - 1) * inputs, 64 if half else 32), filters, 4, 3)
    if inputs < 16:
        return Blocks(128, _power(size * inputs, 32), filters, warps, stages=3)
    if half:
        return Blocks(128 if filters > 16 else 256, _power(inputs, 64), filters, warps, stages=3)
    return Blocks(128, _power(inputs, 32), filters, warps, stages=3)


def weights_blocks(length: int, outputs: int, dtype: torch.dtype) -> Blocks:
    """Blocks of the gradient of the weights; there are `length` numbers under the taps."""
    if dtype == torch.bfloat16:
        return Blocks(64, _power(length, 256), max(64, _power(outputs, 128)), 8, stages=3)
    # Tensor cores that take larger tiles cannot take transposed TF32 matrices.
    return Blocks(32, _power(length, 128), _power(outputs, 64), 2, stages=3)


def _power(numbers: int, most: int) -> int:
    """The next power of two that fits a tensor core."""
    return min(most, max(16, int(triton.next_power_of_2(numbers))))


def channels_last(images: Tensor) -> Tensor:
    """(L, B, C, H, W) as contiguous (L, B, H, W, C); copied only if necessary."""
    return images.movedim(2, -1).contiguous()


def aligned_channels(images: Tensor) -> Tensor:
    """The same, with channels of zeros added where their number is not a multiple of four."""
    missing = -images.shape[2] % _ALIGNED
    images = functional.pad(images, (0, 0, 0, 0, 0, missing)) if missing else images
    return channels_last(images)
