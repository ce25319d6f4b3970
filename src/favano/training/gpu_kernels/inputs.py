"""Inputs of all lanes from the samples of a data set, in one pass over memory."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from favano.data.transforms import Crops

_NUMBERS = 1024  # of an image, most that a program handles
_TOGETHER = 4096  # numbers that a program handles: those of several images


@triton.jit(do_not_specialize=["images"])
def inputs_kernel(
    samples, chosen, table, begins, flipped, out, images,
    CHANNELS: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr,
    NUMBERS: tl.constexpr, IMAGES: tl.constexpr,
    SCALED: tl.constexpr, CROPPED: tl.constexpr, FLIPPED: tl.constexpr,
):  # fmt: skip
    """Some pixels of some images."""
    PIXELS: tl.constexpr = CHANNELS * HEIGHT * WIDTH
    image = (tl.program_id(0).to(tl.int64) * IMAGES + tl.arange(0, IMAGES))[:, None]
    pixel = (tl.program_id(1) * NUMBERS + tl.arange(0, NUMBERS))[None, :]
    exists = image < images
    there = exists & (pixel < PIXELS)
    channel = pixel // (HEIGHT * WIDTH)
    source, inside = pixel, there
    if CROPPED:
        row, column = pixel // WIDTH % HEIGHT, pixel % WIDTH
        if FLIPPED:
            turned = tl.load(flipped + image, mask=exists, other=0) != 0
            column = tl.where(turned, WIDTH - 1 - column, column)
        row = row + tl.load(begins + 2 * image, mask=exists, other=0).to(tl.int32)
        column = column + tl.load(begins + 2 * image + 1, mask=exists, other=0).to(tl.int32)
        inside = there & (row >= 0) & (row < HEIGHT) & (column >= 0) & (column < WIDTH)
        source = (channel * HEIGHT + row) * WIDTH + column
    first = tl.load(chosen + image, mask=exists, other=0) * PIXELS
    value = tl.load(samples + first + source, mask=inside, other=0)
    if SCALED:
        value = tl.load(table + channel * 256 + value.to(tl.int32), mask=there)
    tl.store(out + image * PIXELS + pixel, value.to(out.dtype.element_ty), mask=there)


def gather_inputs(
    samples: Tensor, chosen: Tensor, dtype: torch.dtype, table: Tensor | None, crops: Crops | None
) -> Tensor:
    """The chosen samples (lanes, batch) of a contiguous (N, ...) as (lanes, batch, ...).

    With a table (C, 256) they are images (N, C, H, W) of bytes, which are cropped if asked and then
    become entries of the table. Numbers are rounded to `dtype`.
    """
    shape, chosen = samples.shape[1:], chosen.contiguous()
    pixels = shape.numel()
    begins = flipped = chosen  # not read
    if crops is not None:
        begins = crops.begins.contiguous()
        if crops.flipped is not None:
            flipped = crops.flipped.contiguous().view(torch.uint8)
    out = samples.new_empty((*chosen.shape, *shape), dtype=dtype)
    numbers = min(_NUMBERS, int(triton.next_power_of_2(pixels)))
    images, together = chosen.numel(), _TOGETHER // numbers
    inputs_kernel[triton.cdiv(images, together), triton.cdiv(pixels, numbers)](
        samples, chosen, out if table is None else table, begins, flipped, out, images,
        *((1, 1, pixels) if table is None else shape), numbers, together,
        SCALED=table is not None, CROPPED=crops is not None,
        FLIPPED=crops is not None and crops.flipped is not None,
    )  # fmt: skip
    return out
