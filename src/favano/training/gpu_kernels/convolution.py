"""Triton kernels of the convolution of many lanes: (L, B, C, H, W) images, (L, O, C, k, k) weights.

For cuDNN this is a convolution with L groups: it rearranges all images and is slow with few
channels per group. Here a program takes some pixels of one lane and sums the products of its taps
on tensor cores. Images and results have channels last in memory. So the channels of all pixels
under one row of taps are k C contiguous numbers, and no image is rearranged between two layers.

With few channels, reading every pixel k k times takes longer than the products. Then results are
computed in squares of `side` by `side` pixels: such a square is one pixel of a convolution with
side side O filters, whose taps (`taps.py`) cover all that the square depends on.
"""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

from favano.training.gpu_kernels.blocks import (
    Products,
    aligned_channels,
    channels_last,
    gather_blocks,
    products_of,
    square_side,
    weights_blocks,
)
from favano.training.gpu_kernels.taps import make_taps, sum_parts


@triton.jit(do_not_specialize=["batch"])
def _gather_kernel(
    images, taps, out, batch,
    HEIGHT: tl.constexpr, WIDTH: tl.constexpr, OUT_HEIGHT: tl.constexpr, OUT_WIDTH: tl.constexpr,
    IN: tl.constexpr, OUT: tl.constexpr, SIZE: tl.constexpr, STRIDE: tl.constexpr,
    PADDING: tl.constexpr, SIDE: tl.constexpr, PRECISION: tl.constexpr,
    PIXELS: tl.constexpr, STRETCH: tl.constexpr, FILTERS: tl.constexpr,
):  # fmt: skip
    """out[pixel, o] = sum of images[pixel * stride - padding + tap, i] taps[tap, o, i].

    Here a pixel is a square of `SIDE` by `SIDE` pixels of the result, and o its numbers.
    """
    lane = tl.program_id(2).to(tl.int64)
    pixel = tl.program_id(0) * PIXELS + tl.arange(0, PIXELS)
    wide = OUT_WIDTH // SIDE
    size = OUT_HEIGHT // SIDE * wide
    within = pixel < batch * size
    image, row, column = pixel // size, pixel % size // wide, pixel % wide
    NUMBERS: tl.constexpr = SIDE * SIDE * OUT
    filters = tl.program_id(1) * FILTERS + tl.arange(0, FILTERS)
    images += lane * batch * HEIGHT * WIDTH * IN
    taps += lane * SIZE * SIZE * IN * NUMBERS
    ROW: tl.constexpr = SIZE * IN
    PER_ROW: tl.constexpr = (ROW + STRETCH - 1) // STRETCH
    total = tl.zeros((PIXELS, FILTERS), dtype=tl.float32)
    for step in range(SIZE * PER_ROW):
        tap_row = step // PER_ROW
        first = step % PER_ROW * STRETCH
        place = first + tl.arange(0, STRETCH)
        tap = first // IN if IN % STRETCH == 0 else place[None, :] // IN
        up, left = row * STRIDE - PADDING + tap_row, column * STRIDE - PADDING
        at = (((image * HEIGHT + up) * WIDTH + left) * IN)[:, None] + place[None, :]
        known = (left[:, None] + tap >= 0) & (left[:, None] + tap < WIDTH)
        known = known & (within & (up >= 0) & (up < HEIGHT))[:, None]
        if ROW % STRETCH != 0:
            known = known & (place < ROW)[None, :]
        pixels = tl.load(images + at, mask=known, other=0.0)
        at = (tap_row * NUMBERS + filters)[:, None] * ROW + place[None, :]
        known = (filters < NUMBERS)[:, None] & (place < ROW)[None, :]
        weight = tl.load(taps + at, mask=known, other=0.0)
        total = tl.dot(pixels, tl.trans(weight), total, input_precision=PRECISION)
    out += lane * batch * OUT_HEIGHT * OUT_WIDTH * OUT
    corner = ((image * OUT_HEIGHT + row * SIDE) * OUT_WIDTH + column * SIDE) * OUT
    inside = filters // (SIDE * OUT) * OUT_WIDTH * OUT + filters % (SIDE * OUT)
    known = within[:, None] & (filters < NUMBERS)[None, :]
    result = total.to(out.dtype.element_ty)
    tl.store(out + corner[:, None] + inside[None, :], result, mask=known)


@triton.jit(do_not_specialize=["batch"])
def _spread_kernel(
    gradient, taps, out, batch,
    HEIGHT: tl.constexpr, WIDTH: tl.constexpr, OUT_HEIGHT: tl.constexpr, OUT_WIDTH: tl.constexpr,
    IN: tl.constexpr, OUT: tl.constexpr, SIZE: tl.constexpr, STRIDE: tl.constexpr,
    PADDING: tl.constexpr, PRECISION: tl.constexpr,
    PIXELS: tl.constexpr, STRETCH: tl.constexpr, FILTERS: tl.constexpr,
):  # fmt: skip
    """out[pixel, o] = sum of gradient[(pixel - padding + tap) / stride, i] taps[tap, o, i].

    The sum is over i and the taps for which the quotient is a whole number. These are the same for
    every stride-th pixel of every stride-th row, so a program takes such pixels.
    """
    lane = tl.program_id(2).to(tl.int64)
    residue = tl.program_id(1) % (STRIDE * STRIDE)
    top, side = residue // STRIDE, residue % STRIDE
    filters = tl.program_id(1) // (STRIDE * STRIDE) * FILTERS + tl.arange(0, FILTERS)
    high = (OUT_HEIGHT - top + STRIDE - 1) // STRIDE
    wide = (OUT_WIDTH - side + STRIDE - 1) // STRIDE
    pixel = tl.program_id(0) * PIXELS + tl.arange(0, PIXELS)
    within = pixel < batch * high * wide
    image = pixel // (high * wide)
    row = pixel % (high * wide) // wide * STRIDE + top
    column = pixel % wide * STRIDE + side
    first_row = (PADDING - top + SIZE * STRIDE) % STRIDE
    first_column = (PADDING - side + SIZE * STRIDE) % STRIDE
    tap_rows = (SIZE - first_row + STRIDE - 1) // STRIDE
    tap_columns = (SIZE - first_column + STRIDE - 1) // STRIDE
    PER_TAP: tl.constexpr = (IN + STRETCH - 1) // STRETCH
    gradient += lane * batch * HEIGHT * WIDTH * IN
    taps += lane * SIZE * SIZE * IN * OUT
    total = tl.zeros((PIXELS, FILTERS), dtype=tl.float32)
    for step in range(tap_rows * tap_columns * PER_TAP):
        tap_row = first_row + step // (tap_columns * PER_TAP) * STRIDE
        tap_column = first_column + step // PER_TAP % tap_columns * STRIDE
        channel = step % PER_TAP * STRETCH + tl.arange(0, STRETCH)
        up, left = (row - PADDING + tap_row) // STRIDE, (column - PADDING + tap_column) // STRIDE
        at = (((image * HEIGHT + up) * WIDTH + left) * IN)[:, None] + channel[None, :]
        inside = (row + tap_row >= PADDING) & (column + tap_column >= PADDING)
        inside = inside & (up < HEIGHT) & (left < WIDTH)
        known = (within & inside)[:, None]
        if IN % STRETCH != 0:
            known = known & (channel < IN)[None, :]
        pixels = tl.load(gradient + at, mask=known, other=0.0)
        at = ((tap_row * OUT + filters)[:, None] * SIZE + tap_column) * IN + channel[None, :]
        known = (filters < OUT)[:, None] & (channel < IN)[None, :]
        weight = tl.load(taps + at, mask=known, other=0.0)
        total = tl.dot(pixels, tl.trans(weight), total, input_precision=PRECISION)
    place = (image * OUT_HEIGHT + row) * OUT_WIDTH + column
    out += lane * batch * OUT_HEIGHT * OUT_WIDTH * OUT
    at = place[:, None] * OUT + filters[None, :]
    known = within[:, None] & (filters < OUT)[None, :]
    tl.store(out + at, total.to(out.dtype.element_ty), mask=known)


@triton.jit(do_not_specialize=["batch", "count", "at_once"])
def _weights_kernel(
    images, gradient, parts, batch, count, at_once,
    HEIGHT: tl.constexpr, WIDTH: tl.constexpr, OUT_HEIGHT: tl.constexpr, OUT_WIDTH: tl.constexpr,
    IN: tl.constexpr, OUT: tl.constexpr, SIZE: tl.constexpr, STRIDE: tl.constexpr,
    PADDING: tl.constexpr, SIDE: tl.constexpr, PRECISION: tl.constexpr,
    PIXELS: tl.constexpr, STRETCH: tl.constexpr, FILTERS: tl.constexpr,
):  # fmt: skip
    """parts[o, tap, i] = sum over pixels of gradient[pixel, o] images[source(pixel, tap), i].

    A pixel is a square of the result, as in `_gather_kernel`. A program takes `at_once` images of a
    lane, and `STRETCH` of the numbers under all taps.
    """
    ROW: tl.constexpr = SIZE * IN
    NUMBERS: tl.constexpr = SIDE * SIDE * OUT
    UNIT: tl.constexpr = 16 if IN % 16 == 0 else 4  # numbers that surely belong to one tap
    lane, part = (tl.program_id(2) // count).to(tl.int64), tl.program_id(2) % count
    place = tl.program_id(0) * STRETCH + tl.arange(0, STRETCH)
    in_row = tl.max_contiguous(tl.multiple_of(place % ROW, UNIT), UNIT)
    tap_row = tl.max_constancy(place // ROW, UNIT)
    tap = tl.max_constancy(place % ROW // IN, UNIT)
    filters = tl.program_id(1) * FILTERS + tl.arange(0, FILTERS)
    inside = filters // (SIDE * OUT) * OUT_WIDTH * OUT + filters % (SIDE * OUT)
    images += lane * batch * HEIGHT * WIDTH * IN
    gradient += lane * batch * OUT_HEIGHT * OUT_WIDTH * OUT
    wide = OUT_WIDTH // SIDE
    size = OUT_HEIGHT // SIDE * wide
    last = tl.minimum((part + 1) * at_once, batch) * size
    total = tl.zeros((FILTERS, STRETCH), dtype=tl.float32)
    for start in range(part * at_once * size, last, PIXELS):
        pixel = start + tl.arange(0, PIXELS)
        within = (pixel < last)[:, None]
        image, row, column = pixel // size, pixel % size // wide, pixel % wide
        corner = ((image * OUT_HEIGHT + row * SIDE) * OUT_WIDTH + column * SIDE) * OUT
        known = within & (filters < NUMBERS)[None, :]
        incoming = tl.load(gradient + corner[:, None] + inside[None, :], mask=known, other=0.0)
        up, left = row * STRIDE - PADDING, column * STRIDE - PADDING
        at = ((image * HEIGHT + up) * WIDTH + left) * IN
        at = at[:, None] + (tap_row * WIDTH * IN + in_row)[None, :]
        high, across = up[:, None] + tap_row[None, :], left[:, None] + tap[None, :]
        known = within & (high >= 0) & (high < HEIGHT) & (across >= 0) & (across < WIDTH)
        known = known & (place < SIZE * ROW)[None, :]
        pixels = tl.load(images + at, mask=known, other=0.0)
        total = tl.dot(tl.trans(incoming), pixels, total, input_precision=PRECISION)
    parts += (part * (tl.num_programs(2) // count) + lane) * SIZE * ROW * NUMBERS
    at = filters[:, None] * SIZE * ROW + place[None, :]
    known = (filters < NUMBERS)[:, None] & (place < SIZE * ROW)[None, :]
    tl.store(parts + at, total, mask=known)


def _precision(products: Products) -> str:
    return "ieee" if products == "float32" else "tf32"  # not used for bf16


def _convolved(
    images: Tensor, weights: Tensor, size: tuple[int, int], stride: int, padding: int,
    *, turned: bool,
) -> Tensor:  # fmt: skip
    """Images (L, B, I, h, w) and weights (L, O, I, k, k) to (L, B, O, *size).

    With `turned` this is the gradient of the images: taps are reversed, and I and O swapped.
    """
    images, kernel = aligned_channels(images), weights.shape[-1]
    lanes, batch, height, width, inputs = images.shape
    outputs = weights.shape[2 if turned else 1]
    out = images.new_empty((lanes, batch, *size, outputs))
    spread = turned and stride > 1
    apart = stride if spread else 1  # distance between the pixels of one program
    products = products_of(images)
    side = 1 if spread else square_side(inputs, outputs, kernel, stride, size, products)
    taps = make_taps(weights, inputs, images.dtype, stride, side, turned=turned)
    blocks = gather_blocks(inputs, outputs, kernel, side, products)
    pixels = batch * math.prod(-(-length // (apart * side)) for length in size)
    columns = triton.cdiv(outputs * side**2, blocks.filters)
    how = {
        "HEIGHT": height, "WIDTH": width, "OUT_HEIGHT": size[0], "OUT_WIDTH": size[1],
        "IN": inputs, "OUT": outputs, "PADDING": padding, "PRECISION": _precision(products),
        **blocks.settings(),
    }  # fmt: skip
    grid = triton.cdiv(pixels, blocks.pixels), columns * apart**2, lanes
    if spread:
        _spread_kernel[grid](images, taps, out, batch, SIZE=kernel, STRIDE=stride, **how)
    else:
        window = kernel + (side - 1) * stride
        _gather_kernel[grid](
            images, taps, out, batch, SIZE=window, STRIDE=side * stride, SIDE=side, **how
        )
    return out.movedim(-1, 2)


def forward(images: Tensor, weights: Tensor, stride: int, padding: int) -> Tensor:
    """The convolution of every lane, (L, B, O, h, w)."""
    size = weights.shape[-1]
    high, wide = ((side + 2 * padding - size) // stride + 1 for side in images.shape[-2:])
    return _convolved(images, weights, (high, wide), stride, padding, turned=False)


def images_gradient(
    gradient: Tensor, weights: Tensor, size: tuple[int, int], stride: int, padding: int
) -> Tensor:
    """The gradient of the images, (L, B, I, *size): a convolution with reversed taps."""
    around = weights.shape[-1] - 1 - padding
    return _convolved(gradient, weights, size, stride, around, turned=True)


def weights_gradient(
    gradient: Tensor, images: Tensor, size: int, stride: int, padding: int
) -> Tensor:
    """The gradient of the weights, (L, O, I, size, size)."""
    shape = (gradient.shape[2], images.shape[2], size, size)
    gradient, images = channels_last(gradient), aligned_channels(images)
    lanes, batch, height, width, inputs = images.shape
    high, wide, outputs = gradient.shape[2:]
    products = products_of(images)
    side = square_side(inputs, outputs, size, stride, (high, wide), products)
    window, numbers = size + (side - 1) * stride, side**2 * outputs
    blocks = weights_blocks(window**2 * inputs, numbers, products)
    at_once = blocks.images(batch, high * wide // side**2)
    count = triton.cdiv(batch, at_once)
    parts = images.new_empty((count, lanes, numbers, window**2 * inputs), dtype=torch.float32)
    rows = triton.cdiv(window**2 * inputs, blocks.stretch)
    _weights_kernel[rows, triton.cdiv(numbers, blocks.filters), lanes * count](
        images, gradient, parts, batch, count, at_once,
        HEIGHT=height, WIDTH=width, OUT_HEIGHT=high, OUT_WIDTH=wide,
        IN=inputs, OUT=outputs, SIZE=window, STRIDE=side * stride, PADDING=padding, SIDE=side,
        PRECISION=_precision(products), **blocks.settings(),
    )  # fmt: skip
    return sum_parts(parts, shape, inputs, stride, side)
