"""How the work of a convolution is divided into programs. Measured on an H200."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

import torch
import triton
from torch import Tensor

Products: TypeAlias = Literal["bf16", "tf32", "float32"]

_PIXELS_OF_WEIGHTS = 4096  # pixels per program of the weights' gradient
_MOST_SUMS = 192  # per pixel, of a convolution that goes row by row


class Blocks(NamedTuple):
    """The sizes of one program's work."""

    pixels: int  # at once
    stretch: int  # numbers of a row of taps at once
    filters: int
    warps: int
    stages: int  # of the pipeline of loads
    stretches: int = 1  # of the weights' gradient

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


def triton_precision(products: Products) -> str:
    """How a kernel multiplies float32; of no use for bf16."""
    return "ieee" if products == "float32" else "tf32"


def row_blocks(inputs: int, outputs: int, size: int, products: Products) -> Blocks | None:
    """Blocks of a convolution that goes through images row by row; None if it would not pay."""
    most = 32 if products == "bf16" else 16  # inputs
    filters = tile(outputs, 64 if size <= 3 else 32)
    sums = size * filters  # per pixel
    if products == "float32" or inputs > most or outputs > 64 or sums > _MOST_SUMS:
        return None
    stretch = tile(size * inputs if inputs < 16 else inputs, most)
    if products == "bf16" and filters == 16:
        return Blocks(64, stretch, filters, warps=2, stages=4)
    return Blocks(64, stretch, filters, warps=4, stages=3)


def gather_blocks(inputs: int, outputs: int, size: int, products: Products) -> Blocks:
    """Blocks of the convolution and of the gradient of its images."""
    filters = tile(outputs, 256)
    warps = 8 if filters == 256 else 4
    if inputs < 16:
        return Blocks(128, tile(size * inputs, 32), filters, warps, stages=3)
    if products == "bf16" and filters == 16:
        return Blocks(128, 32, filters, warps=2, stages=2)
    if products == "bf16" and filters == 32 and size <= 3:
        return Blocks(256, 32, filters, warps, stages=3)
    longest = 64 if products == "bf16" else 32
    return Blocks(128, tile(inputs, longest), filters, warps, stages=3)


def weights_blocks(row: int, outputs: int, products: Products, *, rows: bool) -> Blocks:
    """Blocks of the gradient of the weights; there are `row` numbers under a row of taps.

    With `rows` a program takes all rows of taps, so that it has fewer registers for each.
    """
    if products == "bf16" and outputs > 16:
        stretches = triton.cdiv(row, 64)
        most, filters = 1 if rows and stretches > 2 else 3, tile(outputs, 64)
        pixels = 64 if rows or filters == 64 else 128
        return Blocks(pixels, 64, filters, 4, 3, min(most, stretches))
    # With one or two warps, since the tensor cores of four cannot take a transposed TF32 matrix.
    if outputs > 32:
        stages, most = (3, 4) if rows else (5, 5)
        return Blocks(16, 16, 64, 2, stages, min(most, triton.cdiv(row, 16)))
    if outputs > 16 and not rows:
        return Blocks(32, 16, 32, 2, 3, min(7, triton.cdiv(row, 16)))
    filters = stretch = tile(outputs, 32)
    stretches = min(3 if rows else 5, triton.cdiv(row, stretch))
    return Blocks(64 if products == "bf16" else 32, stretch, filters, stretch // 16, 3, stretches)


def tile(numbers: int, most: int | None = None) -> int:
    """The next power of two that fits a tensor core, or the largest that is wanted."""
    power = max(16, int(triton.next_power_of_2(numbers)))
    return power if most is None else min(most, power)
