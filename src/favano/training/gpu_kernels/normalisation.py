"""Triton kernels of batch normalisation, residual and rectifier, for many lanes.

    z = relu(weight (x - mean) / sqrt(var + epsilon) + bias + residual)

mean and (biased) variance are those of a lane's batch, per channel. Images have channels last in
memory. A program takes some pixels of a lane. A first kernel computes partial sums; in a second
one, each program adds up the partial sums of its lane and computes its part of the result.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from favano.training.gpu_kernels.blocks import channels_last

_PARTS = 32  # programs per lane
_NUMBERS = 4096  # numbers that a program handles at once


class Normalised(NamedTuple):
    """The result, and the statistics of the batch, (L, C)."""

    out: Tensor
    mean: Tensor
    variance: Tensor  # biased


@triton.jit
def _sums_kernel(
    images, sums, count, CHANNELS: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Sums of x - shift and of its square; the shift is the lane's first pixel."""
    lane, part, parts = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.num_programs(1)
    channel = tl.arange(0, BLOCK)
    known = channel < CHANNELS
    images += lane * count * CHANNELS
    shift = tl.load(images + channel, mask=known, other=0.0).to(tl.float32)
    first = tl.zeros((ROWS, BLOCK), dtype=tl.float32)
    second = tl.zeros((ROWS, BLOCK), dtype=tl.float32)
    for start in range(part * ROWS, count, parts * ROWS):
        pixel = start + tl.arange(0, ROWS)
        at = pixel[:, None] * CHANNELS + channel[None, :]
        there = (pixel < count)[:, None] & known[None, :]
        distance = tl.load(images + at, mask=there, other=0.0).to(tl.float32) - shift[None, :]
        distance = tl.where(there, distance, 0.0)
        first += distance
        second += distance * distance
    sums += (lane * parts + part) * 2 * CHANNELS
    tl.store(sums + channel, tl.sum(first, 0), mask=known)
    tl.store(sums + CHANNELS + channel, tl.sum(second, 0), mask=known)


@triton.jit
def _result_kernel(
    images, residual, weight, bias, sums, out, means, variances, count, epsilon,
    CHANNELS: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr, PARTS: tl.constexpr,
    WITH_RESIDUAL: tl.constexpr, RELU: tl.constexpr,
):  # fmt: skip
    lane, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    channel = tl.arange(0, BLOCK)
    known = channel < CHANNELS
    images += lane * count * CHANNELS
    out += lane * count * CHANNELS
    residual += lane * count * CHANNELS
    sums += (lane * PARTS + tl.arange(0, PARTS))[:, None] * 2 * CHANNELS + channel[None, :]
    first = tl.sum(tl.load(sums, mask=known[None, :], other=0.0), 0) / count
    second = tl.sum(tl.load(sums + CHANNELS, mask=known[None, :], other=0.0), 0) / count
    variance = tl.maximum(second - first * first, 0.0)
    mean = first + tl.load(images + channel, mask=known, other=0.0).to(tl.float32)
    row = lane * CHANNELS + channel
    if part == 0:
        tl.store(means + row, mean, mask=known)
        tl.store(variances + row, variance, mask=known)
    scale = tl.load(weight + row, mask=known, other=0.0) / tl.sqrt(variance + epsilon)
    offset = tl.load(bias + row, mask=known, other=0.0) - mean * scale
    for start in range(part * ROWS, count, PARTS * ROWS):
        pixel = start + tl.arange(0, ROWS)
        at = pixel[:, None] * CHANNELS + channel[None, :]
        there = (pixel < count)[:, None] & known[None, :]
        image = tl.load(images + at, mask=there, other=0.0).to(tl.float32)
        result = image * scale[None, :] + offset[None, :]
        if WITH_RESIDUAL:
            result += tl.load(residual + at, mask=there, other=0.0).to(tl.float32)
        if RELU:
            result = tl.maximum(result, 0.0)
        tl.store(out + at, result.to(out.dtype.element_ty), mask=there)


@triton.jit
def _rectified_gradient(
    gradient, images, out, at, there, scale, offset,
    WITH_RESIDUAL: tl.constexpr, RELU: tl.constexpr,
):  # fmt: skip
    """The gradient before the rectifier, and the images, at some positions.

    The sign of the result is computed from the image; with a residual it is read from `out`.
    """
    incoming = tl.load(gradient + at, mask=there, other=0.0).to(tl.float32)
    image = tl.load(images + at, mask=there, other=0.0).to(tl.float32)
    if RELU:
        if WITH_RESIDUAL:
            result = tl.load(out + at, mask=there, other=0.0).to(tl.float32)
        else:
            result = image * scale[None, :] + offset[None, :]
        incoming = tl.where(result > 0, incoming, 0.0)
    return incoming, image


@triton.jit
def _gradient_sums_kernel(
    gradient, images, out, weight, bias, means, variances, sums, count, epsilon,
    CHANNELS: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr,
    WITH_RESIDUAL: tl.constexpr, RELU: tl.constexpr,
):  # fmt: skip
    """Sums of the incoming gradient, and of its products with the normalised images."""
    lane, part, parts = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.num_programs(1)
    channel = tl.arange(0, BLOCK)
    known = channel < CHANNELS
    gradient += lane * count * CHANNELS
    images += lane * count * CHANNELS
    out += lane * count * CHANNELS
    row = lane * CHANNELS + channel
    mean = tl.load(means + row, mask=known, other=0.0)
    inverse = 1.0 / tl.sqrt(tl.load(variances + row, mask=known, other=1.0) + epsilon)
    scale = tl.load(weight + row, mask=known, other=0.0) * inverse
    offset = tl.load(bias + row, mask=known, other=0.0) - mean * scale
    first = tl.zeros((ROWS, BLOCK), dtype=tl.float32)
    second = tl.zeros((ROWS, BLOCK), dtype=tl.float32)
    for start in range(part * ROWS, count, parts * ROWS):
        pixel = start + tl.arange(0, ROWS)
        at = pixel[:, None] * CHANNELS + channel[None, :]
        there = (pixel < count)[:, None] & known[None, :]
        incoming, image = _rectified_gradient(
            gradient, images, out, at, there, scale, offset, WITH_RESIDUAL, RELU
        )
        first += incoming
        second += incoming * (image - mean[None, :]) * inverse[None, :]
    sums += (lane * parts + part) * 2 * CHANNELS
    tl.store(sums + channel, tl.sum(first, 0), mask=known)
    tl.store(sums + CHANNELS + channel, tl.sum(second, 0), mask=known)


@triton.jit
def _gradient_kernel(
    gradient, images, out, weight, bias, means, variances, sums,
    to_images, to_residual, to_weight, to_bias, count, epsilon,
    CHANNELS: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr, PARTS: tl.constexpr,
    WITH_RESIDUAL: tl.constexpr, RELU: tl.constexpr,
):  # fmt: skip
    lane, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    channel = tl.arange(0, BLOCK)
    known = channel < CHANNELS
    gradient += lane * count * CHANNELS
    images += lane * count * CHANNELS
    out += lane * count * CHANNELS
    to_images += lane * count * CHANNELS
    to_residual += lane * count * CHANNELS
    sums += (lane * PARTS + tl.arange(0, PARTS))[:, None] * 2 * CHANNELS + channel[None, :]
    total = tl.sum(tl.load(sums, mask=known[None, :], other=0.0), 0)
    product = tl.sum(tl.load(sums + CHANNELS, mask=known[None, :], other=0.0), 0)
    row = lane * CHANNELS + channel
    if part == 0:
        tl.store(to_bias + row, total, mask=known)
        tl.store(to_weight + row, product, mask=known)
    mean = tl.load(means + row, mask=known, other=0.0)
    inverse = 1.0 / tl.sqrt(tl.load(variances + row, mask=known, other=1.0) + epsilon)
    scale = tl.load(weight + row, mask=known, other=0.0) * inverse
    offset = tl.load(bias + row, mask=known, other=0.0) - mean * scale
    total, product = total / count, product * inverse / count
    for start in range(part * ROWS, count, PARTS * ROWS):
        pixel = start + tl.arange(0, ROWS)
        at = pixel[:, None] * CHANNELS + channel[None, :]
        there = (pixel < count)[:, None] & known[None, :]
        incoming, image = _rectified_gradient(
            gradient, images, out, at, there, scale, offset, WITH_RESIDUAL, RELU
        )
        if WITH_RESIDUAL:
            tl.store(to_residual + at, incoming.to(to_residual.dtype.element_ty), mask=there)
        distance = (image - mean[None, :]) * product[None, :]
        found = scale[None, :] * (incoming - total[None, :] - distance)
        tl.store(to_images + at, found.to(to_images.dtype.element_ty), mask=there)


def _launch(images: Tensor) -> tuple[tuple[int, int], int, dict[str, int]]:
    """For images (L, B, H, W, C): the grid of programs, pixels per lane, constants of a kernel."""
    lanes, batch, height, width, channels = images.shape
    block = triton.next_power_of_2(channels)
    rows = max(1, _NUMBERS // block)  # pixels at once
    how = {"CHANNELS": channels, "BLOCK": block, "ROWS": rows, "num_warps": 8}
    return (lanes, _PARTS), batch * height * width, how


def forward(
    images: Tensor, weight: Tensor, bias: Tensor, residual: Tensor | None,
    relu: bool, epsilon: float,
) -> Normalised:  # fmt: skip
    """Normalise (L, B, C, H, W) with weights (L, C)."""
    images, weight, bias = channels_last(images), weight.contiguous(), bias.contiguous()
    grid, count, how = _launch(images)
    sums = weight.new_empty((len(weight), _PARTS, 2, weight.shape[1]))
    _sums_kernel[grid](images, sums, count, **how)
    out = torch.empty_like(images)
    mean, variance = weight.new_empty((2, *weight.shape))
    added = out if residual is None else channels_last(residual)
    _result_kernel[grid](
        images, added, weight, bias, sums, out, mean, variance, count, epsilon, **how,
        PARTS=_PARTS, WITH_RESIDUAL=residual is not None, RELU=relu,
    )  # fmt: skip
    return Normalised(out.movedim(-1, 2), mean, variance)


class Gradients(NamedTuple):
    """Gradients of the images, of the residual, and of the layer's parameters."""

    images: Tensor
    residual: Tensor
    weight: Tensor
    bias: Tensor


def backward(
    gradient: Tensor, images: Tensor, weight: Tensor, bias: Tensor,
    out: Tensor, mean: Tensor, variance: Tensor, with_residual: bool, relu: bool, epsilon: float,
) -> Gradients:  # fmt: skip
    """Gradients of `forward`; that of a residual is empty if there is none."""
    gradient, images, out = (channels_last(one) for one in (gradient, images, out))
    weight, bias, *statistics = (one.contiguous() for one in (weight, bias, mean, variance))
    grid, count, how = _launch(images)
    how |= {"WITH_RESIDUAL": with_residual, "RELU": relu}
    sums = weight.new_empty((len(weight), _PARTS, 2, weight.shape[1]))
    given = gradient, images, out, weight, bias, *statistics, sums
    _gradient_sums_kernel[grid](*given, count, epsilon, **how)
    to_images = torch.empty_like(images)
    to_residual = torch.empty_like(images) if with_residual else images.new_empty((len(images), 0))
    to_weight, to_bias = weight.new_empty((2, *weight.shape))
    _gradient_kernel[grid](
        *given, to_images, to_residual, to_weight, to_bias, count, epsilon, **how, PARTS=_PARTS
    )
    if with_residual:
        to_residual = to_residual.movedim(-1, 2)
    return Gradients(to_images.movedim(-1, 2), to_residual, to_weight, to_bias)
