"""Triton kernels of the convolution of many lanes: (L, B, C, H, W) images, (L, O, C, k, k) weights.

cuDNN sees such a convolution as one with L groups, rearranges all images for it and is slow with
few channels a group. Here a program takes some pixels of one lane and adds up the products of its
taps on tensor cores. Images lie in memory with the channels last, so that the channels of all
pixels under one row of taps are read as one stretch, k C numbers long; results lie so too, and no
image is rearranged between two layers.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from favano.kernels.blocks import channels_last, gather_blocks, weights_blocks


@triton.jit
def _gather_kernel(
    images, taps, out, batch, height, width, out_height, out_width,
    IN: tl.constexpr, OUT: tl.constexpr, SIZE: tl.constexpr, STRIDE: tl.constexpr,
    PADDING: tl.constexpr, TRANSPOSED: tl.constexpr, PRECISION: tl.constexpr,
    PIXELS: tl.constexpr, STRETCH: tl.constexpr, FILTERS: tl.constexpr,
):  # fmt: skip
    """out[pixel, o] = sum over taps and i of images[source(pixel, tap), i] taps[tap, o, i].

    The source of a pixel is pixel * stride - padding + tap; transposed, (pixel - padding + tap) /
    stride where that is a whole number.
    """
    lane = tl.program_id(2).to(tl.int64)
    pixel = tl.program_id(0) * PIXELS + tl.arange(0, PIXELS)
    within = pixel < batch * out_height * out_width
    image, place = pixel // (out_height * out_width), pixel % (out_height * out_width)
    row, column = place // out_width, place % out_width
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
        if IN % STRETCH == 0:
            tap, channel = first // IN, first % IN + tl.arange(0, STRETCH)[None, :]
        else:
            tap, channel = place[None, :] // IN, place[None, :] % IN
        if TRANSPOSED:
            up, left = row - PADDING + tap_row, column[:, None] - PADDING + tap
            inside = (up % STRIDE == 0)[:, None] & (left % STRIDE == 0)
            up, left = up // STRIDE, left // STRIDE
            inside = inside & (left >= 0) & (left < width)
            at = (((image * height + up) * width)[:, None] + left) * IN + channel
        else:
            up, left = row * STRIDE - PADDING + tap_row, column * STRIDE - PADDING
            inside = (left[:, None] + tap >= 0) & (left[:, None] + tap < width)
            at = (((image * height + up) * width + left) * IN)[:, None] + place[None, :]
        known = inside & (within & (up >= 0) & (up < height))[:, None]
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
def _weights_kernel(
    images, gradient, parts, batch, height, width, out_height, out_width, count, at_once,
    IN: tl.constexpr, OUT: tl.constexpr, SIZE: tl.constexpr, STRIDE: tl.constexpr,
    PADDING: tl.constexpr, PRECISION: tl.constexpr,
    PIXELS: tl.constexpr, STRETCH: tl.constexpr, FILTERS: tl.constexpr,
):  # fmt: skip
    """parts[tap, i, o] = sum over pixels of images[source(pixel, tap), i] gradient[pixel, o].

    A program sees `at_once` images of a lane and a stretch of one row of taps.
    """
    ROW: tl.constexpr = SIZE * IN
    PER_ROW: tl.constexpr = (ROW + STRETCH - 1) // STRETCH
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
    for start in range(part * at_once * size, last, PIXELS):
        pixel = start + tl.arange(0, PIXELS)
        within = pixel < last
        image, row, column = pixel // size, pixel % size // out_width, pixel % out_width
        up, left = row * STRIDE - PADDING + tap_row, column * STRIDE - PADDING
        at = pixel[:, None] * OUT + filters[None, :]
        known = within[:, None] & (filters < OUT)[None, :]
        incoming = tl.load(gradient + at, mask=known, other=0.0)
        at = (((image * height + up) * width + left) * IN)[:, None] + place[None, :]
        known = (within & (up >= 0) & (up < height))[:, None]
        known = known & (left[:, None] + tap >= 0) & (left[:, None] + tap < width)
        if ROW % STRETCH != 0:
            known = known & (place < ROW)[None, :]
        pixels = tl.load(images + at, mask=known, other=0.0)
        total = tl.dot(tl.trans(pixels), incoming, total, input_precision=PRECISION)
    lanes = tl.num_programs(2) // count
    parts += ((part * lanes + lane) * SIZE + tap_row) * ROW * OUT
    at = place[:, None] * OUT + filters[None, :]
    tl.store(parts + at, total, mask=(place < ROW)[:, None] & (filters < OUT)[None, :])


def _precision() -> str:
    return "tf32" if torch.backends.cudnn.allow_tf32 else "ieee"


def _gather(
    images: Tensor, taps: Tensor, size: tuple[int, int], stride: int, padding: int, transposed: bool
) -> Tensor:
    """Images (L, B, I, h, w) and taps (L, O, I, k, k) to (L, B, O, *size)."""
    images = channels_last(images)
    taps = taps.permute(0, 3, 1, 4, 2).to(images.dtype).contiguous()
    lanes, batch, height, width, inputs = images.shape
    kernel, outputs = taps.shape[1:3]
    out = images.new_empty((lanes, batch, *size, outputs))
    blocks = gather_blocks(inputs, outputs, kernel)
    tiles = triton.cdiv(batch * size[0] * size[1], blocks.pixels)
    _gather_kernel[tiles, triton.cdiv(outputs, blocks.filters), lanes](
        images, taps, out, batch, height, width, *size,
        IN=inputs, OUT=outputs, SIZE=kernel, STRIDE=stride, PADDING=padding,
        TRANSPOSED=transposed, PRECISION=_precision(), **blocks.settings(),
    )  # fmt: skip
    return out.movedim(-1, 2)


def forward(images: Tensor, weights: Tensor, stride: int, padding: int) -> Tensor:
    """The convolution of every lane, (L, B, O, h, w)."""
    size = weights.shape[-1]
    high, wide = ((side + 2 * padding - size) // stride + 1 for side in images.shape[-2:])
    return _gather(images, weights, (high, wide), stride, padding, transposed=False)


def images_gradient(
    gradient: Tensor, weights: Tensor, size: tuple[int, int], stride: int, padding: int
) -> Tensor:
    """The gradient of the images, (L, B, I, *size): a convolution with the taps turned round."""
    taps = weights.transpose(1, 2).flip(3, 4)
    around = weights.shape[-1] - 1 - padding
    return _gather(gradient, taps, size, stride, around, transposed=stride > 1)


def weights_gradient(
    gradient: Tensor, images: Tensor, size: int, stride: int, padding: int
) -> Tensor:
    """The gradient of the weights, (L, O, I, size, size)."""
    gradient, images = channels_last(gradient), channels_last(images)
    lanes, batch, height, width, inputs = images.shape
    high, wide, outputs = gradient.shape[2:]
    blocks = weights_blocks(inputs, outputs, size)
    at_once = blocks.images(batch, high * wide)
    count = triton.cdiv(batch, at_once)
    parts = images.new_empty((count, lanes, size, size, inputs, outputs), dtype=torch.float32)
    rows = size * triton.cdiv(size * inputs, blocks.stretch)
    _weights_kernel[rows, triton.cdiv(outputs, blocks.filters), lanes * count](
        images, gradient, parts, batch, height, width, high, wide, count, at_once,
        IN=inputs, OUT=outputs, SIZE=size, STRIDE=stride, PADDING=padding,
        PRECISION=_precision(), **blocks.settings(),
    )  # fmt: skip
    total = parts[0] if count == 1 else parts.sum(dim=0)
    return total.permute(0, 4, 3, 1, 2)
