"""A Triton kernel of the gradient of a convolution's weights, for many lanes."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from favano.training.gpu_kernels.blocks import (
    products_of,
    triton_precision,
    weights_blocks,
)
from favano.training.gpu_kernels.channels_last import channels_last
from favano.training.gpu_kernels.taps import sum_parts

_MOST_ROWS = 4  # of taps that a program takes
_MOST_TAPS = 128  # times channels, that are taken as one row


@triton.jit(do_not_specialize=["batch", "count", "at_once"])
def _weights_kernel(
    images, gradient, parts, batch, count, at_once,
    HEIGHT: tl.constexpr, WIDTH: tl.constexpr, OUT_HEIGHT: tl.constexpr, OUT_WIDTH: tl.constexpr,
    IN: tl.constexpr, OUT: tl.constexpr, SIZE: tl.constexpr, STRIDE: tl.constexpr,
    PADDING: tl.constexpr, ROWS: tl.constexpr, WHOLE: tl.constexpr, PRECISION: tl.constexpr,
    PIXELS: tl.constexpr, STRETCH: tl.constexpr, STRETCHES: tl.constexpr, FILTERS: tl.constexpr,
):  # fmt: skip
    """parts[tap, i, o] = sum over pixels of images[source(pixel, tap), i] gradient[pixel, o].

    A program takes `at_once` images of a lane and some stretches of one row of taps. With `ROWS`
    it takes all rows of taps: a row of an image meets a row of the gradient for each of them. With
    `WHOLE` all taps are one row.
    """
    ROW: tl.constexpr = SIZE * IN
    TAPS: tl.constexpr = SIZE * ROW if WHOLE else ROW
    LENGTH: tl.constexpr = STRETCH * STRETCHES
    PER_ROW: tl.constexpr = (TAPS + LENGTH - 1) // LENGTH
    TAP_ROWS: tl.constexpr = SIZE if ROWS else 1
    HIGH: tl.constexpr = HEIGHT if ROWS else OUT_HEIGHT
    lane, part = (tl.program_id(2) // count).to(tl.int64), tl.program_id(2) % count
    first_row, first = tl.program_id(0) // PER_ROW, tl.program_id(0) % PER_ROW * LENGTH
    filters = tl.program_id(1) * FILTERS + tl.arange(0, FILTERS)
    images += lane * batch * HEIGHT * WIDTH * IN
    gradient += lane * batch * OUT_HEIGHT * OUT_WIDTH * OUT
    last = tl.minimum((part + 1) * at_once, batch) * HIGH * OUT_WIDTH
    total = ()
    for _ in tl.static_range(TAP_ROWS * STRETCHES):
        total += (tl.zeros((STRETCH, FILTERS), dtype=tl.float32),)
    for start in range(part * at_once * HIGH * OUT_WIDTH, last, PIXELS):
        pixel = start + tl.arange(0, PIXELS)
        image, row = pixel // (HIGH * OUT_WIDTH), pixel // OUT_WIDTH % HIGH
        column = pixel % OUT_WIDTH
        incoming = ()
        for tap_row in tl.static_range(TAP_ROWS):
            down = row + PADDING - tap_row if ROWS else row
            at = ((image * OUT_HEIGHT + down) * OUT_WIDTH + column) * OUT
            known = (pixel < last) & (down >= 0) & (down < OUT_HEIGHT)
            known = known[:, None] & (filters < OUT)[None, :]
            loaded = tl.load(gradient + at[:, None] + filters[None, :], mask=known, other=0.0)
            incoming += (loaded,)
        up = row if ROWS else row * STRIDE - PADDING + first_row
        left = column * STRIDE - PADDING
        corner = ((image * HEIGHT + up) * WIDTH + left) * IN
        pixels = ()
        for stretch in tl.static_range(STRETCHES):
            begin = first + stretch * STRETCH
            place = begin + tl.arange(0, STRETCH)
            if WHOLE:
                down, beside = place // ROW, place % ROW
                at = corner[:, None] + (down * WIDTH * IN + beside)[None, :]
                high, across = up[:, None] + down[None, :], left[:, None] + beside[None, :] // IN
            else:
                at, high = corner[:, None] + place[None, :], up[:, None]
                tap = begin // IN if IN % STRETCH == 0 else place[None, :] // IN
                across = left[:, None] + tap
            known = (high >= 0) & (high < HEIGHT) & (across >= 0) & (across < WIDTH)
            known = known & (pixel < last)[:, None]
            if TAPS % LENGTH != 0:
                known = known & (place < TAPS)[None, :]
            pixels += (tl.trans(tl.load(images + at, mask=known, other=0.0)),)
        sums = ()
        for number in tl.static_range(TAP_ROWS * STRETCHES):
            left_factor, right_factor = pixels[number % STRETCHES], incoming[number // STRETCHES]
            sums += (tl.dot(left_factor, right_factor, total[number], input_precision=PRECISION),)
        total = sums
    parts += (part * (tl.num_programs(2) // count) + lane) * SIZE * ROW * OUT
    for number in tl.static_range(TAP_ROWS * STRETCHES):
        place = first + number % STRETCHES * STRETCH + tl.arange(0, STRETCH)
        to = ((first_row + number // STRETCHES) * ROW + place)[:, None] * OUT + filters[None, :]
        real = (place < TAPS)[:, None] & (filters < OUT)[None, :]
        tl.store(parts + to, total[number], mask=real)


def weights_gradient(
    gradient: Tensor, images: Tensor, size: int, stride: int, padding: int
) -> Tensor:
    """The gradient of the weights, (L, O, I, size, size)."""
    gradient, images = channels_last(gradient), channels_last(images)
    lanes, batch, height, width, inputs = images.shape
    high, wide, outputs = gradient.shape[2:]
    products = products_of(images)
    tensor_cores = products != "float32"  # without them there are not enough registers
    rows = stride == 1 and 1 < size <= _MOST_ROWS and tensor_cores
    whole = not rows and size > 1 and size * size * inputs <= _MOST_TAPS
    length = size * inputs * (size if whole else 1)
    blocks = weights_blocks(length, outputs, products, rows=rows)
    at_once = blocks.images(batch, high * wide)
    count = triton.cdiv(batch, at_once)
    parts = images.new_empty((count, lanes, size, size, inputs, outputs), dtype=torch.float32)
    per_row = triton.cdiv(length, blocks.stretch * blocks.stretches)
    columns = triton.cdiv(outputs, blocks.filters)
    _weights_kernel[per_row * (1 if rows or whole else size), columns, lanes * count](
        images, gradient, parts, batch, count, at_once,
        HEIGHT=height, WIDTH=width, OUT_HEIGHT=high, OUT_WIDTH=wide,
        IN=inputs, OUT=outputs, SIZE=size, STRIDE=stride, PADDING=padding, ROWS=rows, WHOLE=whole,
        PRECISION=triton_precision(products), STRETCHES=blocks.stretches, **blocks.settings(),
    )  # fmt: skip
    return sum_parts(parts)
