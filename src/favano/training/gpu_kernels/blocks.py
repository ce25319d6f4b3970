"""How the work of a convolution is divided into programs. Measured on an H200."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

import torch
import triton
from torch import Tensor
from torch.nn import functional

Products: TypeAlias = Literal["bf16", "tf32", "float32"]

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


def products_of(images: Tensor) -> Products:
    """The precision of products with these images."""
    if images.dtype == torch.bfloat16:
        return "bf16"
    return "tf32" if torch.backends.cudnn.allow_tf32 else "float32"


def square_side(
    inputs: int, outputs: int, size: int, stride: int, result: tuple[int, int], products: Products
) -> int:
    """Side of the squares of pixels in which results are computed.

    Squares take more products, which are cheap on tensor cores only.
    """
    few = max(inputs, outputs) <= _FEW_CHANNELS and size == 3 and stride == 1
    even = not any(length % 2 for length in result)
    return 2 if few and even and products != "float32" else 1


def gather_blocks(inputs: int, outputs: int, size: int, side: int, products: Products) -> Blocks:
    """Blocks of the convolution and of the gradient of its images."""
    filters = _power(outputs * side**2, 256)
    warps = 8 if filters == 256 else 4
    longest = 64 if products == "bf16" else 32
    if side > 1:
        stretch, stages = _power((size + side - 1) * inputs, longest), 2 if filters <= 64 else 3
        return Blocks(128, stretch, filters, warps, stages)
    if inputs < 16:
        return Blocks(128, _power(size * inputs, 32), filters, warps, stages=3)
    pixels = 256 if products == "bf16" and filters == 16 else 128
    return Blocks(pixels, _power(inputs, longest), filters, warps, stages=3)


def weights_blocks(length: int, outputs: int, products: Products) -> Blocks:
    """Blocks of the gradient of the weights; there are `length` numbers under the taps."""
    if products == "bf16":
        return Blocks(64, _power(length, 128), max(64, _power(outputs, 128)), 4, stages=3)
    # With two warps, since the tensor cores of four cannot take a transposed TF32 matrix.
    stretch = _power(length, 128 if products == "tf32" else 64)
    return Blocks(32, stretch, _power(outputs, 64), 2, stages=3)


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
