"""Triton kernels of max-pooling, for images with channels last in memory.

The rectifier before it is made at the same time: max(relu(x)) = relu(max(x)).
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from favano.training.gpu_kernels.channels_last import channels_last

_NUMBERS = 2048  # numbers that a program handles


@triton.jit
def _tile(pixels, CHANNELS: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr):
    """Some pixels of a lane, the channels, and which of the numbers exist."""
    pixel = (tl.program_id(0) * ROWS + tl.arange(0, ROWS))[:, None]
    channel = tl.arange(0, BLOCK)[None, :]
    return pixel, channel, (pixel < pixels) & (channel < CHANNELS)


@triton.jit(do_not_specialize=["pixels"])
def _pool_kernel(
    images, out, origins, pixels,
    HEIGHT: tl.constexpr, WIDTH: tl.constexpr, OUT_HEIGHT: tl.constexpr, OUT_WIDTH: tl.constexpr,
    SIZE: tl.constexpr, STRIDE: tl.constexpr, PADDING: tl.constexpr,
    CHANNELS: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr, RELU: tl.constexpr,
):  # fmt: skip
    pixel, channel, there = _tile(pixels, CHANNELS, BLOCK, ROWS)
    lane = tl.program_id(1).to(tl.int64) * (pixels // (OUT_HEIGHT * OUT_WIDTH)) * CHANNELS
    images += lane * HEIGHT * WIDTH
    out += lane * OUT_HEIGHT * OUT_WIDTH
    origins += lane * OUT_HEIGHT * OUT_WIDTH
    image = pixel // (OUT_HEIGHT * OUT_WIDTH)
    up = pixel // OUT_WIDTH % OUT_HEIGHT * STRIDE - PADDING
    left = pixel % OUT_WIDTH * STRIDE - PADDING
    best = tl.full((ROWS, BLOCK), float("-inf"), dtype=tl.float32)
    origin = tl.zeros((ROWS, BLOCK), dtype=tl.int32)
    for tap in range(SIZE * SIZE):
        row, column = up + tap // SIZE, left + tap % SIZE
        inside = (row >= 0) & (row < HEIGHT) & (column >= 0) & (column < WIDTH)
        at = ((image * HEIGHT + row) * WIDTH + column) * CHANNELS + channel
        value = tl.load(images + at, mask=there & inside, other=float("-inf")).to(tl.float32)
        larger = (value > best) | (value != value)  # as PyTorch: the first of equals, and NaN
        best, origin = tl.where(larger, value, best), tl.where(larger, tap, origin)
    if RELU:
        zero = best <= 0  # not NaN
        best, origin = tl.where(zero, 0.0, best), tl.where(zero, 255, origin)
    at = pixel * CHANNELS + channel
    tl.store(out + at, best.to(out.dtype.element_ty), mask=there)
    tl.store(origins + at, origin.to(tl.uint8), mask=there)


@triton.jit(do_not_specialize=["pixels"])
def _pool_gradient_kernel(
    gradient, origins, to_images, pixels,
    HEIGHT: tl.constexpr, WIDTH: tl.constexpr, OUT_HEIGHT: tl.constexpr, OUT_WIDTH: tl.constexpr,
    SIZE: tl.constexpr, STRIDE: tl.constexpr, PADDING: tl.constexpr,
    CHANNELS: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """A pixel's gradient is the sum over the squares that it is the largest number of."""
    pixel, channel, there = _tile(pixels, CHANNELS, BLOCK, ROWS)
    lane = tl.program_id(1).to(tl.int64) * (pixels // (HEIGHT * WIDTH)) * CHANNELS
    gradient += lane * OUT_HEIGHT * OUT_WIDTH
    origins += lane * OUT_HEIGHT * OUT_WIDTH
    to_images += lane * HEIGHT * WIDTH
    image, row, column = pixel // (HEIGHT * WIDTH), pixel // WIDTH % HEIGHT, pixel % WIDTH
    row, column = row + PADDING, column + PADDING
    REACH: tl.constexpr = (SIZE + STRIDE - 1) // STRIDE  # squares per direction
    total = tl.zeros((ROWS, BLOCK), dtype=tl.float32)
    for number in tl.static_range(REACH * REACH):
        high, wide = row // STRIDE - number // REACH, column // STRIDE - number % REACH
        up, left = row - high * STRIDE, column - wide * STRIDE
        inside = (high >= 0) & (high < OUT_HEIGHT) & (up < SIZE)
        inside = inside & (wide >= 0) & (wide < OUT_WIDTH) & (left < SIZE)
        at = ((image * OUT_HEIGHT + high) * OUT_WIDTH + wide) * CHANNELS + channel
        origin = tl.load(origins + at, mask=there & inside, other=255)
        incoming = tl.load(gradient + at, mask=there & inside, other=0.0).to(tl.float32)
        total += tl.where(origin == up * SIZE + left, incoming, 0.0)
    at = pixel * CHANNELS + channel
    tl.store(to_images + at, total.to(to_images.dtype.element_ty), mask=there)


def _launch(result: Tensor, **how: int) -> tuple[tuple[int, int], int, dict[str, int]]:
    """For a result (L, B, H, W, C): the grid of programs, pixels per lane, constants."""
    lanes, batch, height, width, channels = result.shape
    block = int(triton.next_power_of_2(channels))
    rows = max(1, _NUMBERS // block)
    pixels = batch * height * width
    return (
        (triton.cdiv(pixels, rows), lanes),
        pixels,
        {"CHANNELS": channels, "BLOCK": block, "ROWS": rows, **how},
    )


def forward(
    images: Tensor, size: int, stride: int, padding: int, relu: bool
) -> tuple[Tensor, Tensor]:
    """The largest numbers of (L, B, C, H, W) in each square, rectified or not, and their places.

    The place is 255 where the rectifier made the number zero: no pixel gets its gradient.
    """
    images = channels_last(images)
    lanes, batch, height, width, channels = images.shape
    high, wide = ((side + 2 * padding - size) // stride + 1 for side in (height, width))
    out = images.new_empty((lanes, batch, high, wide, channels))
    origin = torch.empty_like(out, dtype=torch.uint8)
    grid, pixels, how = _launch(
        out, HEIGHT=height, WIDTH=width, OUT_HEIGHT=high, OUT_WIDTH=wide,
        SIZE=size, STRIDE=stride, PADDING=padding, RELU=relu,
    )  # fmt: skip
    _pool_kernel[grid](images, out, origin, pixels, **how)
    return out.movedim(-1, 2), origin.movedim(-1, 2)


def backward(
    gradient: Tensor, origin: Tensor, shape: tuple[int, int], size: int, stride: int, padding: int
) -> Tensor:
    """The gradient of the images, (L, B, C, *shape)."""
    gradient, origin = channels_last(gradient), channels_last(origin)
    lanes, batch, high, wide, channels = gradient.shape
    to_images = gradient.new_empty((lanes, batch, *shape, channels))
    grid, pixels, how = _launch(
        to_images, HEIGHT=shape[0], WIDTH=shape[1], OUT_HEIGHT=high, OUT_WIDTH=wide,
        SIZE=size, STRIDE=stride, PADDING=padding,
    )  # fmt: skip
    _pool_gradient_kernel[grid](gradient, origin, to_images, pixels, **how)
    return to_images.movedim(-1, 2)
