"""Triton kernels of the convolution of many lanes: (L, B, C, H, W) images, (L, O, C, k, k) weights.

For cuDNN this is a convolution with L groups: it rearranges all images and is slow with few
channels per group. Here a program takes some pixels of one lane and sums the products of its taps
on tensor cores. Images and results have channels last in memory. So the channels of all pixels
under one row of taps are k C contiguous numbers, and no image is rearranged between two layers.

With few channels, reading every pixel for each row of taps takes longer than the products. Then a
program goes through its images row by row, and adds what it has read to all rows of the result.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import triton
import triton.language as tl
from torch import Tensor

from favano.training.gpu_kernels.batch_normalisation import real_pixels
from favano.training.gpu_kernels.blocks import (
    gather_blocks,
    products_of,
    row_blocks,
    triton_precision,
)
from favano.training.gpu_kernels.channels_last import channels_last
from favano.training.gpu_kernels.taps import make_taps


@triton.jit
def _store(
    result, added, out, at, filters, known,
    OUT: tl.constexpr, ADDED: tl.constexpr, BIASED: tl.constexpr,
):  # fmt: skip
    """Store a result plus `added`: numbers of the same pixels, or biases of the filters."""
    if ADDED:
        result += tl.load(added + at, mask=known, other=0.0).to(tl.float32)
    if BIASED:
        result += tl.load(added + filters, mask=filters < OUT, other=0.0).to(tl.float32)[None, :]
    tl.store(out + at, result.to(out.dtype.element_ty), mask=known)


@triton.jit(do_not_specialize=["batch"])
def _rows_kernel(
    images, taps, added, out, sums, samples, batch,
    HEIGHT: tl.constexpr, WIDTH: tl.constexpr, OUT_HEIGHT: tl.constexpr, OUT_WIDTH: tl.constexpr,
    IN: tl.constexpr, OUT: tl.constexpr, SIZE: tl.constexpr, PADDING: tl.constexpr,
    PRECISION: tl.constexpr, ADDED: tl.constexpr, BIASED: tl.constexpr, SUMS: tl.constexpr,
    COUNTED: tl.constexpr, PIXELS: tl.constexpr, STRETCH: tl.constexpr, FILTERS: tl.constexpr,
):  # fmt: skip
    """out[row, o] = sum over taps and i of images[row - padding + tap, i] taps[tap, o, i].

    A program takes `PIXELS` columns, of one or more images. A row of them is part of `SIZE` rows
    of the result; these are in `total`, the one that is complete next being the last. `sums` of
    the result and its squares are for a batch normalisation. Images that pad a mini-batch are read
    as zeros.
    """
    lane = tl.program_id(2).to(tl.int64)
    pixel = tl.program_id(0) * PIXELS + tl.arange(0, PIXELS)
    exists = pixel < batch * OUT_WIDTH
    within = pixel < real_pixels(samples, lane, batch * OUT_WIDTH, OUT_WIDTH, COUNTED)
    image, column = pixel // OUT_WIDTH, pixel % OUT_WIDTH
    left = (column - PADDING)[:, None]
    filters = tl.program_id(1) * FILTERS + tl.arange(0, FILTERS)
    ROW: tl.constexpr = SIZE * IN
    PER_ROW: tl.constexpr = (ROW + STRETCH - 1) // STRETCH
    images += lane * batch * HEIGHT * WIDTH * IN
    taps += lane * SIZE * ROW * OUT
    added += lane * (OUT if BIASED else batch * OUT_HEIGHT * OUT_WIDTH * OUT)
    out += lane * batch * OUT_HEIGHT * OUT_WIDTH * OUT
    weights, total = (), ()
    for step in tl.static_range(SIZE * PER_ROW):
        place = step % PER_ROW * STRETCH + tl.arange(0, STRETCH)
        source = (step // PER_ROW * OUT + filters)[:, None] * ROW + place[None, :]
        real = (filters < OUT)[:, None] & (place < ROW)[None, :]
        weights += (tl.trans(tl.load(taps + source, mask=real, other=0.0)),)
    for _ in tl.static_range(SIZE):
        total += (tl.zeros((PIXELS, FILTERS), dtype=tl.float32),)
    corner = (image * HEIGHT * WIDTH)[:, None] * IN + left * IN
    goal = ((image * OUT_HEIGHT * OUT_WIDTH + column) * OUT)[:, None] + filters[None, :]
    wanted = exists[:, None] & (filters < OUT)[None, :]
    first = tl.zeros((PIXELS, FILTERS), dtype=tl.float32)
    second = tl.zeros((PIXELS, FILTERS), dtype=tl.float32)
    for row in range(0, OUT_HEIGHT + SIZE - 1 - PADDING):
        pixels = ()
        for part in tl.static_range(PER_ROW):
            place = part * STRETCH + tl.arange(0, STRETCH)
            across = left + (part * STRETCH // IN if IN % STRETCH == 0 else place[None, :] // IN)
            known = within[:, None] & (across >= 0) & (across < WIDTH) & (row < HEIGHT)
            if ROW % STRETCH != 0:
                known = known & (place < ROW)[None, :]
            at = corner + row * WIDTH * IN + place[None, :]
            pixels += (tl.load(images + at, mask=known, other=0.0),)
        rows = ()
        for tap_row in tl.static_range(SIZE):
            summed = total[tap_row]
            for part in tl.static_range(PER_ROW):
                weight = weights[tap_row * PER_ROW + part]
                summed = tl.dot(pixels[part], weight, summed, input_precision=PRECISION)
            rows += (summed,)
        done = row + PADDING - SIZE + 1
        complete = wanted & (done >= 0)
        result = rows[SIZE - 1]
        at = goal + done * OUT_WIDTH * OUT
        _store(result, added, out, at, filters, complete, OUT, ADDED, BIASED)
        if SUMS:
            result = tl.where(complete, result, 0.0)
            first += result
            second += result * result
        total = (tl.zeros((PIXELS, FILTERS), dtype=tl.float32),)
        for tap_row in tl.static_range(SIZE - 1):
            total += (rows[tap_row],)
    if SUMS:
        sums += (lane * tl.num_programs(0) + tl.program_id(0)) * 2 * OUT + filters
        tl.store(sums, tl.sum(first, 0), mask=filters < OUT)
        tl.store(sums + OUT, tl.sum(second, 0), mask=filters < OUT)


@triton.jit(do_not_specialize=["batch"])
def _gather_kernel(
    images, taps, added, out, batch,
    HEIGHT: tl.constexpr, WIDTH: tl.constexpr, OUT_HEIGHT: tl.constexpr, OUT_WIDTH: tl.constexpr,
    IN: tl.constexpr, OUT: tl.constexpr, SIZE: tl.constexpr, STRIDE: tl.constexpr,
    PADDING: tl.constexpr, PRECISION: tl.constexpr, ADDED: tl.constexpr, BIASED: tl.constexpr,
    PIXELS: tl.constexpr, STRETCH: tl.constexpr, FILTERS: tl.constexpr,
):  # fmt: skip
    """out[pixel, o] = sum of images[pixel * stride - padding + tap, i] taps[tap, o, i]."""
    lane = tl.program_id(2).to(tl.int64)
    pixel = tl.program_id(0) * PIXELS + tl.arange(0, PIXELS)
    size = OUT_HEIGHT * OUT_WIDTH
    within = pixel < batch * size
    image, row, column = pixel // size, pixel % size // OUT_WIDTH, pixel % OUT_WIDTH
    filters = tl.program_id(1) * FILTERS + tl.arange(0, FILTERS)
    images += lane * batch * HEIGHT * WIDTH * IN
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
        at = (((image * HEIGHT + up) * WIDTH + left) * IN)[:, None] + place[None, :]
        known = (left[:, None] + tap >= 0) & (left[:, None] + tap < WIDTH)
        known = known & (within & (up >= 0) & (up < HEIGHT))[:, None]
        if ROW % STRETCH != 0:
            known = known & (place < ROW)[None, :]
        pixels = tl.load(images + at, mask=known, other=0.0)
        at = (tap_row * OUT + filters)[:, None] * ROW + place[None, :]
        known = (filters < OUT)[:, None] & (place < ROW)[None, :]
        weight = tl.load(taps + at, mask=known, other=0.0)
        total = tl.dot(pixels, tl.trans(weight), total, input_precision=PRECISION)
    added += lane * (OUT if BIASED else batch * OUT_HEIGHT * OUT_WIDTH * OUT)
    out += lane * batch * OUT_HEIGHT * OUT_WIDTH * OUT
    at = pixel[:, None] * OUT + filters[None, :]
    known = within[:, None] & (filters < OUT)[None, :]
    _store(total, added, out, at, filters, known, OUT, ADDED, BIASED)


@triton.jit(do_not_specialize=["batch"])
def _spread_kernel(
    gradient, taps, added, out, batch,
    HEIGHT: tl.constexpr, WIDTH: tl.constexpr, OUT_HEIGHT: tl.constexpr, OUT_WIDTH: tl.constexpr,
    IN: tl.constexpr, OUT: tl.constexpr, SIZE: tl.constexpr, STRIDE: tl.constexpr,
    PADDING: tl.constexpr, PRECISION: tl.constexpr, ADDED: tl.constexpr, BIASED: tl.constexpr,
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
    added += lane * (OUT if BIASED else batch * OUT_HEIGHT * OUT_WIDTH * OUT)
    out += lane * batch * OUT_HEIGHT * OUT_WIDTH * OUT
    at = place[:, None] * OUT + filters[None, :]
    known = within[:, None] & (filters < OUT)[None, :]
    _store(total, added, out, at, filters, known, OUT, ADDED, BIASED)


class Convolved(NamedTuple):
    """The result, (L, B, O, h, w), and sums of it and of its squares, (L, parts, 2, O).

    There are no parts if the sums were not computed.
    """

    out: Tensor
    sums: Tensor


def convolved(
    images: Tensor, weights: Tensor, size: tuple[int, int], stride: int, padding: int,
    *, bias: Tensor | None = None, added: Tensor | None = None, samples: Tensor | None = None,
    turned: bool = False,
) -> Convolved:  # fmt: skip
    """Images (L, B, I, h, w) and weights (L, O, I, k, k) to (L, B, O, *size), plus one of both.

    The sums are without biases, and of the first `samples` (L,) images of each lane, if these are
    given: the results of others are not for use. With `turned` this is the gradient of the images:
    taps are reversed, and I and O swapped.
    """
    images, kernel = channels_last(images), weights.shape[-1]
    lanes, batch, height, width, inputs = images.shape
    taps = make_taps(weights, images.dtype, turned=turned)
    outputs, products = taps.shape[2], products_of(images)
    out = images.new_empty((lanes, batch, *size, outputs))
    addend = out if added is None else channels_last(added)
    addend = addend if bias is None else bias.contiguous()
    plain = stride == 1 and 0 <= padding < kernel
    by_row = row_blocks(inputs, outputs, kernel, products) if plain else None
    blocks = by_row or gather_blocks(inputs, outputs, kernel, products)
    apart = stride if turned else 1  # distance between the pixels of one program
    columns = triton.cdiv(outputs, blocks.filters) * apart**2
    how = {
        "HEIGHT": height, "WIDTH": width, "OUT_HEIGHT": size[0], "OUT_WIDTH": size[1],
        "IN": inputs, "OUT": outputs, "SIZE": kernel, "PADDING": padding,
        "PRECISION": triton_precision(products),
        "ADDED": added is not None, "BIASED": bias is not None, **blocks.settings(),
    }  # fmt: skip
    tiles = triton.cdiv(batch * size[1], blocks.pixels) if by_row else 0
    sums = weights.new_empty((lanes, 0 if turned else tiles, 2, outputs))
    if by_row:
        _rows_kernel[tiles, columns, lanes](
            images, taps, addend, out, sums, out if samples is None else samples.contiguous(),
            batch, SUMS=not turned, COUNTED=samples is not None, **how,
        )  # fmt: skip
    else:
        pixels = batch * math.prod(-(-length // apart) for length in size)
        programs = _spread_kernel if apart > 1 else _gather_kernel
        programs[triton.cdiv(pixels, blocks.pixels), columns, lanes](
            images, taps, addend, out, batch, STRIDE=stride, **how
        )
    return Convolved(out.movedim(-1, 2), sums)


def images_gradient(
    gradient: Tensor, weights: Tensor, size: tuple[int, int], stride: int, padding: int,
    added: Tensor | None,
) -> Tensor:  # fmt: skip
    """The gradient of the images, (L, B, I, *size): a convolution with reversed taps."""
    around = weights.shape[-1] - 1 - padding
    return convolved(gradient, weights, size, stride, around, added=added, turned=True).out
