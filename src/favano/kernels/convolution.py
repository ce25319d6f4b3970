"""Triton kernels of the convolution of many lanes: (L, B, C, H, W) images, (L, O, C, k, k) weights.

cuDNN sees such a convolution as one with L groups, rearranges all images for it and is slow with
few channels a group. Here a program takes some pixels of one lane and adds up the products of its
taps on tensor cores. Images lie in memory with the channels last, so that a pixel's channels are
read at once; results do too, and no image is rearranged between two layers.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

# Measured on an H200 with the layers of ResNet-20.
_PIXELS = 128
_GRADIENT_PIXELS = 32
_MOST_INPUTS = 32  # channels in one product
_IMAGES_AT_ONCE = 4  # of a lane, in one program of the weights' gradient


@triton.jit
def _gather_kernel(
    images, weights, out, batch, height, width, out_height, out_width,
    IN: tl.constexpr, OUT: tl.constexpr, BLOCK_IN: tl.constexpr, BLOCK_OUT: tl.constexpr,
    SIZE: tl.constexpr, STRIDE: tl.constexpr, PADDING: tl.constexpr, TRANSPOSED: tl.constexpr,
    PIXELS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """out[pixel, o] = sum over taps and i of images[source(pixel, tap), i] weights[tap, i, o].

    The source of a pixel is pixel * stride - padding + tap; transposed, which is the gradient of
    the images, (pixel + padding - tap) / stride where that is a whole number.
    """
    lane = tl.program_id(0).to(tl.int64)
    pixel = tl.program_id(1) * PIXELS + tl.arange(0, PIXELS)
    within = pixel < batch * out_height * out_width
    image, place = pixel // (out_height * out_width), pixel % (out_height * out_width)
    row, column = place // out_width, place % out_width
    channel, filters = tl.arange(0, BLOCK_IN), tl.arange(0, BLOCK_OUT)
    images += lane * batch * height * width * IN
    weights += lane * SIZE * SIZE * IN * OUT
    total = tl.zeros((PIXELS, BLOCK_OUT), dtype=tl.float32)
    for tap in tl.static_range(SIZE * SIZE):
        if TRANSPOSED:
            up, left = row + PADDING - tap // SIZE, column + PADDING - tap % SIZE
            whole = (up % STRIDE == 0) & (left % STRIDE == 0)
            up, left = up // STRIDE, left // STRIDE
        else:
            up = row * STRIDE - PADDING + tap // SIZE
            left = column * STRIDE - PADDING + tap % SIZE
            whole = within
        inside = within & whole & (up >= 0) & (up < height) & (left >= 0) & (left < width)
        source = ((image * height + up) * width + left) * IN
        for first in tl.static_range(0, IN, BLOCK_IN):
            known = inside[:, None] & (first + channel < IN)[None, :]
            at = source[:, None] + (first + channel)[None, :]
            pixels = tl.load(images + at, mask=known, other=0.0)
            at = (tap * IN + first + channel)[:, None] * OUT + filters[None, :]
            known = (first + channel < IN)[:, None] & (filters < OUT)[None, :]
            weight = tl.load(weights + at, mask=known, other=0.0)
            total = tl.dot(pixels, weight, total, input_precision=PRECISION)
    out += lane * batch * out_height * out_width * OUT
    at = pixel[:, None] * OUT + filters[None, :]
    tl.store(out + at, total, mask=within[:, None] & (filters < OUT)[None, :])


@triton.jit
def _weights_kernel(
    images, gradient, parts, batch, height, width, out_height, out_width,
    IN: tl.constexpr, OUT: tl.constexpr, BLOCK_IN: tl.constexpr, BLOCK_OUT: tl.constexpr,
    SIZE: tl.constexpr, STRIDE: tl.constexpr, PADDING: tl.constexpr,
    AT_ONCE: tl.constexpr, PIXELS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """parts[tap, i, o] = sum over pixels of images[source(pixel, tap), i] gradient[pixel, o].

    A program sees some images of a lane and one row of taps, so that gradients are read SIZE times
    and not SIZE * SIZE.
    """
    lane, tap_row = tl.program_id(0).to(tl.int64), tl.program_id(1) % SIZE
    part = tl.program_id(2)
    channel = (tl.program_id(1) // SIZE) * BLOCK_IN + tl.arange(0, BLOCK_IN)
    filters = tl.arange(0, BLOCK_OUT)
    images += lane * batch * height * width * IN
    gradient += lane * batch * out_height * out_width * OUT
    size = out_height * out_width
    last = tl.minimum((part + 1) * AT_ONCE, batch) * size
    left_sum = tl.zeros((BLOCK_IN, BLOCK_OUT), dtype=tl.float32)
    middle_sum = tl.zeros((BLOCK_IN, BLOCK_OUT), dtype=tl.float32)
    right_sum = tl.zeros((BLOCK_IN, BLOCK_OUT), dtype=tl.float32)
    for start in range(part * AT_ONCE * size, last, PIXELS):
        pixel = start + tl.arange(0, PIXELS)
        within = pixel < last
        image, row, column = pixel // size, pixel % size // out_width, pixel % out_width
        up, left = row * STRIDE - PADDING + tap_row, column * STRIDE - PADDING
        place = pixel[:, None] * OUT + filters[None, :]
        known = within[:, None] & (filters < OUT)[None, :]
        incoming = tl.load(gradient + place, mask=known, other=0.0)
        at = (((image * height + up) * width + left) * IN)[:, None] + channel[None, :]
        inside = (within & (up >= 0) & (up < height))[:, None] & (channel < IN)[None, :]
        known = inside & ((left >= 0) & (left < width))[:, None]
        pixels = tl.load(images + at, mask=known, other=0.0)
        left_sum = tl.dot(tl.trans(pixels), incoming, left_sum, input_precision=PRECISION)
        if SIZE == 3:
            known = inside & ((left + 1 >= 0) & (left + 1 < width))[:, None]
            pixels = tl.load(images + at + IN, mask=known, other=0.0)
            middle_sum = tl.dot(tl.trans(pixels), incoming, middle_sum, input_precision=PRECISION)
            known = inside & ((left + 2 >= 0) & (left + 2 < width))[:, None]
            pixels = tl.load(images + at + 2 * IN, mask=known, other=0.0)
            right_sum = tl.dot(tl.trans(pixels), incoming, right_sum, input_precision=PRECISION)
    lanes = tl.num_programs(0)
    parts += (part * lanes + lane) * (SIZE * SIZE * IN * OUT) + tap_row * SIZE * IN * OUT
    at = channel[:, None] * OUT + filters[None, :]
    known = (channel < IN)[:, None] & (filters < OUT)[None, :]
    tl.store(parts + at, left_sum, mask=known)
    if SIZE == 3:
        tl.store(parts + IN * OUT + at, middle_sum, mask=known)
        tl.store(parts + 2 * IN * OUT + at, right_sum, mask=known)


def channels_last(images: Tensor) -> Tensor:
    """(L, B, C, H, W) as (L, B, H, W, C) in one piece; copied only if it does not lie so."""
    return images.movedim(2, -1).contiguous()


def _block(channels: int, most: int) -> int:
    """A power of two that a tensor core can take."""
    return min(most, max(16, triton.next_power_of_2(channels)))


def _precision() -> str:
    return "tf32" if torch.backends.cudnn.allow_tf32 else "ieee"


def _gather(
    images: Tensor, taps: Tensor, size: tuple[int, int], stride: int, padding: int, transposed: bool
) -> Tensor:
    """Images (L, B, I, h, w) and taps (L, k, k, I, O) to (L, B, O, *size)."""
    images, taps = channels_last(images), taps.contiguous()
    lanes, batch, height, width, inputs = images.shape
    outputs = taps.shape[-1]
    out = images.new_empty((lanes, batch, *size, outputs))
    grid = (lanes, triton.cdiv(batch * size[0] * size[1], _PIXELS))
    _gather_kernel[grid](
        images, taps, out, batch, height, width, *size,
        IN=inputs, OUT=outputs,
        BLOCK_IN=_block(inputs, _MOST_INPUTS), BLOCK_OUT=_block(outputs, 1024),
        SIZE=taps.shape[1], STRIDE=stride, PADDING=padding, TRANSPOSED=transposed,
        PIXELS=_PIXELS, PRECISION=_precision(), num_warps=4,
    )  # fmt: skip
    return out.movedim(-1, 2)


def forward(images: Tensor, weights: Tensor, stride: int, padding: int) -> Tensor:
    """The convolution of every lane, (L, B, O, h, w)."""
    size = weights.shape[-1]
    high, wide = ((side + 2 * padding - size) // stride + 1 for side in images.shape[-2:])
    taps = weights.permute(0, 3, 4, 2, 1)
    return _gather(images, taps, (high, wide), stride, padding, transposed=False)


def images_gradient(
    gradient: Tensor, weights: Tensor, size: tuple[int, int], stride: int, padding: int
) -> Tensor:
    """The gradient of the images, (L, B, I, *size)."""
    taps = weights.permute(0, 3, 4, 1, 2)
    return _gather(gradient, taps, size, stride, padding, transposed=True)


def weights_gradient(
    gradient: Tensor, images: Tensor, size: int, stride: int, padding: int
) -> Tensor:
    """The gradient of the weights, (L, O, I, size, size)."""
    gradient, images = channels_last(gradient), channels_last(images)
    lanes, batch, height, width, inputs = images.shape
    outputs = gradient.shape[-1]
    block, block_out = _block(inputs, _MOST_INPUTS), _block(outputs, 1024)
    count = triton.cdiv(batch, _IMAGES_AT_ONCE)
    parts = images.new_empty((count, lanes, size, size, inputs, outputs))
    grid = (lanes, size * triton.cdiv(inputs, block), count)
    _weights_kernel[grid](
        images, gradient, parts, batch, height, width, *gradient.shape[2:4],
        IN=inputs, OUT=outputs, BLOCK_IN=block, BLOCK_OUT=block_out,
        SIZE=size, STRIDE=stride, PADDING=padding,
        AT_ONCE=_IMAGES_AT_ONCE, PIXELS=_GRADIENT_PIXELS, PRECISION=_precision(),
        num_warps=max(1, min(4, block * block_out // 512)),
    )  # fmt: skip
    return parts.sum(dim=0).permute(0, 4, 3, 1, 2)
