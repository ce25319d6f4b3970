"""Triton kernels of the convolution of many lanes: (L, B, C, H, W) images, (L, O, C, k, k) weights.

For cuDNN this is a convolution with L groups: it rearranges all images and is slow with few
channels per group. Here a program takes some pixels of one lane and sums the products of its taps
on tensor cores. Images and results have channels last in memory. So the channels of all pixels
under one row of taps are k C contiguous numbers, and no image is rearranged between two layers.
"""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

from favano.training.gpu_kernels.blocks import channels_last, gather_blocks, weights_blocks


@triton.jit
def _gather_kernel(
    images, taps, out, batch, height, width, out_height, out_width,
    IN: tl.constexpr, OUT: tl.constexpr, SIZE: tl.constexpr, STRIDE: tl.constexpr,
    PADDING: tl.constexpr, PRECISION: tl.constexpr,
    PIXELS: tl.constexpr, STRETCH: tl.constexpr, FILTERS: tl.constexpr,
):  # fmt: skip
    """out[pixel, o] = sum of images[pixel * stride - padding + tap, i] taps[tap, o, i]."""
    lane = tl.program_id(2).to(tl.int64)
    pixel = tl.program_id(0) * PIXELS + tl.arange(0, PIXELS)
    size = out_height * out_width
    within = pixel < batch * size
    image, row, column = pixel // size, pixel % size // out_width, pixel % out_width
    filters = tl.program_id(1) * FILTERS + tl.arange(0, FILTERS)
    images += lane * batch * height * width * IN
    taps += lane * SIZE * SIZE * IN * OUT
    ROW: tl.constexpr = SIZE * IN
    PER_ROW: tl.constexpr = (ROW + STRETCH - 1) // STRETCH
    total = tl.zeros((PIXELS, FILTERS), dtype=tl.float32)
    for step in range(SIZE * PER_ROW):
        tap_row = step // PER_ROW
        first = step % PER_ROW * STRETCH
        place = first + tl.arange(0, STRETCH)
        tap = first // IN if IN % STRETCH == 0 else place[None, :] // IN
        up, left = row * STRIDE - PADDING + tap_row, column * STRIDE - PADDING
        at = (((image * height + up) * width + left) * IN)[:, None] + place[None, :]
        known = (left[:, None] + tap >= 0) & (left[:, None] + tap < width)
        known = known & (within & (up >= 0) & (up < height))[:, None]
        if ROW % STRETCH != 0:
            known = known & (place < ROW)[None, :]
        pixels = tl.load(images + at, mask=known, other=0.0)
        at = (tap_row * OUT + filters)[:, None] * ROW + place[None, :]
        known = (filters < OUT)[:, None] & (place < ROW)[None, :]
        weight = tl.load(taps + at, mask=known, other=0.0)
        total = tl.dot(pixels, tl.trans(weight), total, input_precision=PRECISION)
    out += lane * batch * out_height * out_width * OUT
    at = pixel[:, None] * OUT + filters[None, :]
    known = within[:, None] & (filters < OUT)[None, :]
    tl.store(out + at, total.to(out.dtype.element_ty), mask=known)


@triton.jit
def _spread_kernel(
    gradient, taps, out, batch, height, width, out_height, out_width,
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
    high = (out_height - top + STRIDE - 1) // STRIDE
    wide = (out_width - side + STRIDE - 1) // STRIDE
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
    gradient += lane * batch * height * width * IN
    taps += lane * SIZE * SIZE * IN * OUT
    total = tl.zeros((PIXELS, FILTERS), dtype=tl.float32)
    for step in range(tap_rows * tap_columns * PER_TAP):
        tap_row = first_row + step // (tap_columns * PER_TAP) * STRIDE
        tap_column = first_column + step // PER_TAP % tap_columns * STRIDE
        channel = step % PER_TAP * STRETCH + tl.arange(0, STRETCH)
        up, left = (row - PADDING + tap_row) // STRIDE, (column - PADDING + tap_column) // STRIDE
        at = (((image * height + up) * width + left) * IN)[:, None] + channel[None, :]
        inside = (row + tap_row >= PADDING) & (column + tap_column >= PADDING)
        inside = inside & (up < height) & (left < width)
        known = (within & inside)[:, None]
        if IN % STRETCH != 0:
            known = known & (channel < IN)[None, :]
        pixels = tl.load(gradient + at, mask=known, other=0.0)
        at = ((tap_row * OUT + filters)[:, None] * SIZE + tap_column) * IN + channel[None, :]
        known = (filters < OUT)[:, None] & (channel < IN)[None, :]
        weight = tl.load(taps + at, mask=known, other=0.0)
        total = tl.dot(pixels, tl.trans(weight), total, input_precision=PRECISION)
    place = (image * out_height + row) * out_width + column
    out += lane * batch * out_height * out_width * OUT
    at = place[:, None] * OUT + filters[None, :]
    known = within[:, None] & (filters < OUT)[None, :]
    tl.store(out + at, total.to(out.dtype.element_ty), mask=known)


@triton.jit
def _weights_kernel(
    images, gradient, parts, batch, height, width, out_height, out_width, count, at_once,
    IN: tl.constexpr, OUT: tl.constexpr, SIZE: tl.constexpr, STRIDE: tl.constexpr,
    PADDING: tl.constexpr, PRECISION: tl.constexpr, BY_TAP: tl.constexpr,
    PIXELS: tl.constexpr, STRETCH: tl.constexpr, FILTERS: tl.constexpr,
):  # fmt: skip
    """parts[tap, i, o] = sum over pixels of images[source(pixel, tap), i] gradient[pixel, o].

    A program takes `at_once` images of a lane and a stretch of one row of taps: of all taps in
    turn, or with `BY_TAP` of three taps at once, so that the gradient is read only once.
    """
    ROW: tl.constexpr = SIZE * IN
    LENGTH: tl.constexpr = IN if BY_TAP else ROW
    PER_ROW: tl.constexpr = (LENGTH + STRETCH - 1) // STRETCH
    tap_row, first = tl.program_id(0) // PER_ROW, tl.program_id(0) % PER_ROW * STRETCH
    lane, part = (tl.program_id(2) // count).to(tl.int64), tl.program_id(2) % count
    place = first + tl.arange(0, STRETCH)
    tap = first // IN if IN % STRETCH == 0 else place[None, :] // IN
    filters = tl.program_id(1) * FILTERS + tl.arange(0, FILTERS)
    images += lane * batch * height * width * IN
    gradient += lane * batch * out_height * out_width * OUT
    size = out_height * out_width
    last = tl.minimum((part + 1) * at_once, batch) * size
    total = tl.zeros((STRETCH, FILTERS), dtype=tl.float32)
    second = tl.zeros((STRETCH, FILTERS), dtype=tl.float32)
    third = tl.zeros((STRETCH, FILTERS), dtype=tl.float32)
    for start in range(part * at_once * size, last, PIXELS):
        pixel = start + tl.arange(0, PIXELS)
        within = pixel < last
        image, row, column = pixel // size, pixel % size // out_width, pixel % out_width
        up, left = row * STRIDE - PADDING + tap_row, (column * STRIDE - PADDING)[:, None]
        at = pixel[:, None] * OUT + filters[None, :]
        known = within[:, None] & (filters < OUT)[None, :]
        incoming = tl.load(gradient + at, mask=known, other=0.0)
        at = ((image * height + up) * width)[:, None] * IN + left * IN + place[None, :]
        inside = (within & (up >= 0) & (up < height))[:, None] & (place < LENGTH)[None, :]
        known = inside & (left + tap >= 0) & (left + tap < width)
        pixels = tl.load(images + at, mask=known, other=0.0)
        total = tl.dot(tl.trans(pixels), incoming, total, input_precision=PRECISION)
        if BY_TAP:
            known = inside & (left + 1 >= 0) & (left + 1 < width)
            pixels = tl.load(images + at + IN, mask=known, other=0.0)
            second = tl.dot(tl.trans(pixels), incoming, second, input_precision=PRECISION)
            known = inside & (left + 2 >= 0) & (left + 2 < width)
            pixels = tl.load(images + at + 2 * IN, mask=known, other=0.0)
            third = tl.dot(tl.trans(pixels), incoming, third, input_precision=PRECISION)
    lanes = tl.num_programs(2) // count
    parts += ((part * lanes + lane) * SIZE + tap_row) * ROW * OUT
    at = place[:, None] * OUT + filters[None, :]
    known = (place < LENGTH)[:, None] & (filters < OUT)[None, :]
    tl.store(parts + at, total, mask=known)
    if BY_TAP:
        tl.store(parts + IN * OUT + at, second, mask=known)
        tl.store(parts + 2 * IN * OUT + at, third, mask=known)


def _precision() -> str:
    return "tf32" if torch.backends.cudnn.allow_tf32 else "ieee"


def _taps(weights: Tensor, like: Tensor) -> Tensor:
    """Weights (L, O, I, k, k) as (L, k, O, k, I): each row of taps is contiguous."""
    return weights.permute(0, 3, 1, 4, 2).to(like.dtype).contiguous()


def _convolved(
    images: Tensor, weights: Tensor, size: tuple[int, int], stride: int, padding: int, spread: bool
) -> Tensor:
    """Images (L, B, I, h, w) and weights (L, O, I, k, k) to (L, B, O, *size)."""
    images, taps = channels_last(images), _taps(weights, images)
    lanes, batch, height, width, inputs = images.shape
    kernel, outputs = taps.shape[1:3]
    out = images.new_empty((lanes, batch, *size, outputs))
    blocks = gather_blocks(inputs, outputs, kernel, images.dtype)
    apart = stride if spread else 1  # distance between the pixels of one program
    tiles = triton.cdiv(batch * math.prod(-(-side // apart) for side in size), blocks.pixels)
    programs = _spread_kernel if spread else _gather_kernel
    programs[tiles, triton.cdiv(outputs, blocks.filters) * apart**2, lanes](
        images, taps, out, batch, height, width, *size,
        IN=inputs, OUT=outputs, SIZE=kernel, STRIDE=stride, PADDING=padding,
        PRECISION=_precision(), **blocks.settings(),
    )  # fmt: skip
    return out.movedim(-1, 2)


def forward(images: Tensor, weights: Tensor, stride: int, padding: int) -> Tensor:
    """The convolution of every lane, (L, B, O, h, w)."""
    size = weights.shape[-1]
    high, wide = ((side + 2 * padding - size) // stride + 1 for side in images.shape[-2:])
    return _convolved(images, weights, (high, wide), stride, padding, spread=False)


def images_gradient(
    gradient: Tensor, weights: Tensor, size: tuple[int, int], stride: int, padding: int
) -> Tensor:
    """The gradient of the images, (L, B, I, *size): a convolution with reversed taps."""
    turned, around = weights.transpose(1, 2).flip(3, 4), weights.shape[-1] - 1 - padding
    return _convolved(gradient, turned, size, stride, around, spread=stride > 1)


def weights_gradient(
    gradient: Tensor, images: Tensor, size: int, stride: int, padding: int
) -> Tensor:
    """The gradient of the weights, (L, O, I, size, size)."""
    gradient, images = channels_last(gradient), channels_last(images)
    lanes, batch, height, width, inputs = images.shape
    high, wide, outputs = gradient.shape[2:]
    by_tap = size == 3 and inputs >= 16
    length = inputs if by_tap else size * inputs
    blocks = weights_blocks(length, outputs, images.dtype)
    at_once = blocks.images(batch, high * wide)
    count = triton.cdiv(batch, at_once)
    parts = images.new_empty((count, lanes, size, size, inputs, outputs), dtype=torch.float32)
    rows = size * triton.cdiv(length, blocks.stretch)
    _weights_kernel[rows, triton.cdiv(outputs, blocks.filters), lanes * count](
        images, gradient, parts, batch, height, width, high, wide, count, at_once,
        IN=inputs, OUT=outputs, SIZE=size, STRIDE=stride, PADDING=padding,
        PRECISION=_precision(), BY_TAP=by_tap, **blocks.settings(),
    )  # fmt: skip
    total = parts[0] if count == 1 else parts.sum(dim=0)
    return total.permute(0, 4, 3, 1, 2)
