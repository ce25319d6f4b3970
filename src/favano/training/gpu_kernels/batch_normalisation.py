"""Batch normalisation, residual and rectifier of many lanes.

Some programs share a lane's batch. A first kernel computes their sums; in a second one, each
program adds up the sums of its lane and computes its part of the result.

Lanes whose mini-batches have fewer images than others are padded with images at their end. These
count in no sum, and are zeros in all results.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from favano.training.gpu_kernels.channels_last import channels_last
from favano.training.gpu_kernels.normalisation import (
    gradient_moments,
    images_gradient,
    moments,
    normalise,
    store_zeros,
)

_PARTS = 64  # programs per lane
_NUMBERS = 2048  # that a program handles at once


@triton.jit
def real_pixels(samples, lane, count, pixels, COUNTED: tl.constexpr):
    """How many of a lane's `count` pixels belong to images that do not pad its mini-batch."""
    real = count
    if COUNTED:
        real = tl.load(samples + lane).to(tl.int32) * pixels
    return real


@triton.jit
def _store_sums(sums, first, second, lane, channel, known, CHANNELS: tl.constexpr):
    sums += (lane * tl.num_programs(0) + tl.program_id(0)) * 2 * CHANNELS
    tl.store(sums + channel, first, mask=known)
    tl.store(sums + CHANNELS + channel, second, mask=known)


@triton.jit
def _load_sums(sums, parts, lane, channel, known, CHANNELS: tl.constexpr, PARTS: tl.constexpr):
    part = tl.arange(0, PARTS)
    sums += (lane * parts + part)[:, None] * 2 * CHANNELS + channel[None, :]
    known = (part < parts)[:, None] & known[None, :]
    first = tl.load(sums, mask=known, other=0.0)
    second = tl.load(sums + CHANNELS, mask=known, other=0.0)
    return tl.sum(first, 0), tl.sum(second, 0)


@triton.jit(do_not_specialize=["count"])
def _sums_kernel(
    images, sums, samples, count, pixels,
    CHANNELS: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr, COUNTED: tl.constexpr,
):  # fmt: skip
    lane = tl.program_id(1).to(tl.int64)
    channel = tl.arange(0, BLOCK)
    known = channel < CHANNELS
    real = real_pixels(samples, lane, count, pixels, COUNTED)
    first, second, _ = moments(
        images + lane * count * CHANNELS, channel, known,
        tl.program_id(0) * ROWS, real, tl.num_programs(0) * ROWS, CHANNELS, ROWS,
    )  # fmt: skip
    _store_sums(sums, first, second, lane, channel, known, CHANNELS)


@triton.jit(do_not_specialize=["count", "parts"])
def _result_kernel(
    images, residual, weight, bias, between, sums, parts, out, means, variances,
    running_mean, running_variance, apart, momentum, samples, count, pixels, epsilon,
    CHANNELS: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr, COUNTED: tl.constexpr,
    PARTS: tl.constexpr, SHIFTED: tl.constexpr, WITH_RESIDUAL: tl.constexpr, RELU: tl.constexpr,
):  # fmt: skip
    """Running statistics are moved in place.

    Those of two lanes are `apart` numbers apart, and weights and biases `between`.
    """
    part, lane = tl.program_id(0), tl.program_id(1).to(tl.int64)
    channel = tl.arange(0, BLOCK)
    known = channel < CHANNELS
    first_number = lane * count * CHANNELS
    images += first_number
    first, second = _load_sums(sums, parts, lane, channel, known, CHANNELS, PARTS)
    real = real_pixels(samples, lane, count, pixels, COUNTED)
    first, second = first / real, second / real
    variance = tl.maximum(second - first * first, 0.0)
    mean = first
    if SHIFTED:
        mean += tl.load(images + channel, mask=known, other=0.0).to(tl.float32)
    row = lane * CHANNELS + channel
    if part == 0:
        tl.store(means + row, mean, mask=known)
        tl.store(variances + row, variance, mask=known)
        at = lane * apart + channel
        old = tl.load(running_mean + at, mask=known)
        tl.store(running_mean + at, old + momentum * (mean - old), mask=known)
        old, unbiased = tl.load(running_variance + at, mask=known), variance * real / (real - 1)
        tl.store(running_variance + at, old + momentum * (unbiased - old), mask=known)
    at = lane * between + channel
    scale = tl.load(weight + at, mask=known, other=0.0) / tl.sqrt(variance + epsilon)
    offset = tl.load(bias + at, mask=known, other=0.0) - mean * scale
    normalise(
        images, residual + first_number, out + first_number, scale, offset, channel, known,
        part * ROWS, real, tl.num_programs(0) * ROWS, CHANNELS, ROWS, WITH_RESIDUAL, RELU,
    )  # fmt: skip
    if COUNTED:
        step = tl.num_programs(0) * ROWS
        store_zeros(
            out + first_number, channel, known, part * ROWS, real, count, step, CHANNELS, ROWS
        )


@triton.jit
def _coefficients(weight, bias, between, means, variances, lane, channel, known, epsilon,
                  CHANNELS: tl.constexpr):  # fmt: skip
    """Mean, 1 / deviation, scale and offset of each channel."""
    row, at = lane * CHANNELS + channel, lane * between + channel
    mean = tl.load(means + row, mask=known, other=0.0)
    inverse = 1.0 / tl.sqrt(tl.load(variances + row, mask=known, other=1.0) + epsilon)
    scale = tl.load(weight + at, mask=known, other=0.0) * inverse
    return mean, inverse, scale, tl.load(bias + at, mask=known, other=0.0) - mean * scale


@triton.jit(do_not_specialize=["count"])
def _gradient_sums_kernel(
    gradient, images, out, to_residual, weight, bias, between, means, variances, sums,
    samples, count, pixels, epsilon,
    CHANNELS: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr, COUNTED: tl.constexpr,
    WITH_RESIDUAL: tl.constexpr, RELU: tl.constexpr,
):  # fmt: skip
    lane = tl.program_id(1).to(tl.int64)
    channel = tl.arange(0, BLOCK)
    known = channel < CHANNELS
    first_number = lane * count * CHANNELS
    mean, inverse, scale, offset = _coefficients(
        weight, bias, between, means, variances, lane, channel, known, epsilon, CHANNELS
    )
    real = real_pixels(samples, lane, count, pixels, COUNTED)
    begin, step = tl.program_id(0) * ROWS, tl.num_programs(0) * ROWS
    total, product = gradient_moments(
        gradient + first_number, images + first_number, out + first_number,
        to_residual + first_number, scale, offset, mean, inverse, channel, known,
        begin, real, step, CHANNELS, ROWS, WITH_RESIDUAL, RELU,
    )  # fmt: skip
    if COUNTED and WITH_RESIDUAL:
        to_residual += first_number
        store_zeros(to_residual, channel, known, begin, real, count, step, CHANNELS, ROWS)
    _store_sums(sums, total, product, lane, channel, known, CHANNELS)


@triton.jit(do_not_specialize=["count"])
def _gradient_kernel(
    gradient, images, weight, bias, between, means, variances, sums,
    to_images, to_weight, to_bias, samples, count, pixels, epsilon,
    CHANNELS: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr, COUNTED: tl.constexpr,
    PARTS: tl.constexpr, RELU: tl.constexpr,
):  # fmt: skip
    part, lane = tl.program_id(0), tl.program_id(1).to(tl.int64)
    channel = tl.arange(0, BLOCK)
    known = channel < CHANNELS
    row, first_number = lane * CHANNELS + channel, lane * count * CHANNELS
    total, product = _load_sums(sums, PARTS, lane, channel, known, CHANNELS, PARTS)
    if part == 0:
        tl.store(to_bias + row, total, mask=known)
        tl.store(to_weight + row, product, mask=known)
    mean, inverse, scale, offset = _coefficients(
        weight, bias, between, means, variances, lane, channel, known, epsilon, CHANNELS
    )
    real = real_pixels(samples, lane, count, pixels, COUNTED)
    to_images, step = to_images + first_number, tl.num_programs(0) * ROWS
    images_gradient(
        gradient + first_number, images + first_number, to_images,
        scale, offset, mean, scale * total / real, scale * inverse * product / real,
        channel, known, part * ROWS, real, step, CHANNELS, ROWS, RELU,
    )  # fmt: skip
    if COUNTED:
        store_zeros(to_images, channel, known, part * ROWS, real, count, step, CHANNELS, ROWS)


def _launch(
    images: Tensor, samples: Tensor | None
) -> tuple[tuple[int, int], tuple[Tensor, int, int], dict[str, int]]:
    """For images (L, B, H, W, C): grid, real images with pixels per lane and image, constants."""
    lanes, batch, height, width, channels = images.shape
    block = int(triton.next_power_of_2(channels))
    how = {
        "CHANNELS": channels, "BLOCK": block, "ROWS": max(1, _NUMBERS // block),
        "COUNTED": samples is not None, "num_warps": 4,
    }  # fmt: skip
    counts = images if samples is None else samples.contiguous()  # not read if None
    return (_PARTS, lanes), (counts, batch * height * width, height * width), how


def _parameters(weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor, int]:
    """Parameters (L, C), and how many numbers apart two lanes of them are; parts of models are."""
    if weight.stride() != bias.stride() or weight.stride(1) != 1:
        weight, bias = weight.contiguous(), bias.contiguous()
    return weight, bias, weight.stride(0)


def forward(
    images: Tensor, weight: Tensor, bias: Tensor, residual: Tensor | None, sums: Tensor | None,
    relu: bool, epsilon: float,
    momentum: float, running_mean: Tensor, running_variance: Tensor, samples: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Normalise (L, B, C, H, W) with weights (L, C); mean and (biased) variance are (L, C).

    `sums` of the images and their squares, (L, parts, 2, C), are computed if they are not given.
    Running statistics (L, C) are moved in place. Of a lane's images the first `samples`, (L,),
    are real; all are if it is None.
    """
    images, parameters = channels_last(images), _parameters(weight, bias)
    grid, counts, how = _launch(images, samples)
    known = sums is not None and sums.shape[1] > 0
    if not known:
        sums = weight.new_empty((len(weight), _PARTS, 2, weight.shape[1]))
        _sums_kernel[grid](images, sums, *counts, **how)
    out = torch.empty_like(images)
    mean, variance = weight.new_empty((2, *weight.shape))
    added = out if residual is None else channels_last(residual)
    parts = sums.shape[1]
    _result_kernel[grid](
        images, added, *parameters, sums, parts, out, mean, variance,
        running_mean, running_variance, running_mean.stride(0), momentum, *counts, epsilon, **how,
        PARTS=int(triton.next_power_of_2(parts)), SHIFTED=not known,
        WITH_RESIDUAL=residual is not None, RELU=relu,
    )  # fmt: skip
    return out.movedim(-1, 2), mean, variance


def backward(
    gradient: Tensor, images: Tensor, weight: Tensor, bias: Tensor,
    out: Tensor, mean: Tensor, variance: Tensor, with_residual: bool, relu: bool, epsilon: float,
    _momentum: float, _running_mean: Tensor, _running_variance: Tensor, samples: Tensor | None,
) -> tuple[Tensor | None, ...]:  # fmt: skip
    """Gradients of images, weight, bias and residual."""
    gradient, images, out = (channels_last(tensor) for tensor in (gradient, images, out))
    grid, counts, how = _launch(images, samples)
    to_images = torch.empty_like(images)
    to_residual = torch.empty_like(images) if with_residual else to_images  # not written
    to_weight, to_bias = weight.new_empty((2, *weight.shape))
    sums = weight.new_empty((len(weight), _PARTS, 2, weight.shape[1]))
    layer = *_parameters(weight, bias), mean.contiguous(), variance.contiguous(), sums
    _gradient_sums_kernel[grid](
        gradient, images, out, to_residual, *layer, *counts, epsilon, **how,
        WITH_RESIDUAL=with_residual, RELU=relu,
    )  # fmt: skip
    _gradient_kernel[grid](
        to_residual if with_residual else gradient, images, *layer,
        to_images, to_weight, to_bias, *counts, epsilon, **how, PARTS=_PARTS,
        RELU=relu and not with_residual,
    )  # fmt: skip
    residual = to_residual.movedim(-1, 2) if with_residual else None
    return to_images.movedim(-1, 2), to_weight, to_bias, residual
