"""Group normalisation, residual and rectifier of many lanes: one program per image."""

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
)

_NUMBERS = 4096  # that a program handles at once


@triton.jit
def _group_sums(values, GROUPS: tl.constexpr):
    """The sum of each channel's group."""
    LENGTH: tl.constexpr = values.shape[0] // GROUPS
    total = tl.sum(tl.reshape(values, (GROUPS, LENGTH)), 1)
    return tl.reshape(tl.broadcast_to(total[:, None], (GROUPS, LENGTH)), (GROUPS * LENGTH,))


@triton.jit
def _channels(CHANNELS: tl.constexpr, PER: tl.constexpr, BLOCK: tl.constexpr, GROUPS: tl.constexpr):
    """The channels of a tile, where each of `GROUPS` groups takes a power of two of places."""
    LENGTH: tl.constexpr = BLOCK // GROUPS
    place = tl.arange(0, BLOCK)
    if LENGTH == PER:  # written so that the compiler sees contiguous numbers
        return place, place < CHANNELS
    channel = place // LENGTH * PER + place % LENGTH
    return channel, (place % LENGTH < PER) & (channel < CHANNELS)


@triton.jit(do_not_specialize=["count"])
def _group_kernel(
    images, residual, weight, bias, out, means, variances, count, epsilon,
    CHANNELS: tl.constexpr, PER: tl.constexpr, GROUPS: tl.constexpr, BLOCK: tl.constexpr,
    ROWS: tl.constexpr, WITH_RESIDUAL: tl.constexpr, RELU: tl.constexpr,
):  # fmt: skip
    lane, image = tl.program_id(1), tl.program_id(1).to(tl.int64) * tl.num_programs(0)
    image += tl.program_id(0)
    channel, known = _channels(CHANNELS, PER, BLOCK, GROUPS)
    first_number = image * count * CHANNELS
    images += first_number
    first, second, shift = moments(images, channel, known, 0, count, ROWS, CHANNELS, ROWS)
    first, second = first / count, second / count
    of_channel = first + shift
    mean = _group_sums(tl.where(known, of_channel, 0.0), GROUPS) / PER
    apart = of_channel - mean
    spread = tl.maximum(second - first * first, 0.0) + apart * apart
    variance = _group_sums(tl.where(known, spread, 0.0), GROUPS) / PER
    tl.store(means + image * CHANNELS + channel, mean, mask=known)
    tl.store(variances + image * CHANNELS + channel, variance, mask=known)
    row = lane * CHANNELS + channel
    scale = tl.load(weight + row, mask=known, other=0.0) / tl.sqrt(variance + epsilon)
    offset = tl.load(bias + row, mask=known, other=0.0) - mean * scale
    normalise(
        images, residual + first_number, out + first_number, scale, offset, channel, known,
        0, count, ROWS, CHANNELS, ROWS, WITH_RESIDUAL, RELU,
    )  # fmt: skip


@triton.jit(do_not_specialize=["count"])
def _group_gradient_kernel(
    gradient, images, out, weight, bias, means, variances,
    to_images, to_residual, to_weight, to_bias, count, epsilon,
    CHANNELS: tl.constexpr, PER: tl.constexpr, GROUPS: tl.constexpr, BLOCK: tl.constexpr,
    ROWS: tl.constexpr, WITH_RESIDUAL: tl.constexpr, RELU: tl.constexpr,
):  # fmt: skip
    """Gradients of the parameters are those of one image."""
    lane, image = tl.program_id(1), tl.program_id(1).to(tl.int64) * tl.num_programs(0)
    image += tl.program_id(0)
    channel, known = _channels(CHANNELS, PER, BLOCK, GROUPS)
    first_number = image * count * CHANNELS
    gradient += first_number
    images += first_number
    out += first_number
    own = image * CHANNELS + channel
    mean = tl.load(means + own, mask=known, other=0.0)
    inverse = 1.0 / tl.sqrt(tl.load(variances + own, mask=known, other=1.0) + epsilon)
    weights = tl.load(weight + lane * CHANNELS + channel, mask=known, other=0.0)
    scale = weights * inverse
    offset = tl.load(bias + lane * CHANNELS + channel, mask=known, other=0.0) - mean * scale
    total, product = gradient_moments(
        gradient, images, out, to_residual + first_number, scale, offset, mean, inverse,
        channel, known, 0, count, ROWS, CHANNELS, ROWS, WITH_RESIDUAL, RELU,
    )  # fmt: skip
    tl.store(to_bias + own, total, mask=known)
    tl.store(to_weight + own, product, mask=known)
    numbers = count * PER
    constant = inverse * _group_sums(weights * total, GROUPS) / numbers
    slope = inverse * inverse * _group_sums(weights * product, GROUPS) / numbers
    tl.debug_barrier()  # the gradient of the residual is read by other threads
    images_gradient(
        to_residual + first_number if WITH_RESIDUAL else gradient, images,
        to_images + first_number, scale, offset, mean, constant, slope,
        channel, known, 0, count, ROWS, CHANNELS, ROWS, RELU and not WITH_RESIDUAL,
    )  # fmt: skip


def _constants(channels: int, groups: int, residual: bool, relu: bool) -> dict[str, int | bool]:
    """Constants of both kernels."""
    per = channels // groups
    padded = int(triton.next_power_of_2(groups))
    block = padded * int(triton.next_power_of_2(per))
    return {
        "CHANNELS": channels, "PER": per, "GROUPS": padded, "BLOCK": block,
        "ROWS": max(1, _NUMBERS // block), "WITH_RESIDUAL": residual, "RELU": relu, "num_warps": 8,
    }  # fmt: skip


def forward(
    images: Tensor, weight: Tensor, bias: Tensor, residual: Tensor | None, sums: None,
    relu: bool, epsilon: float, groups: int,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Normalise (L, B, C, H, W) with weights (L, C); mean and (biased) variance are (L, B, C)."""
    images, weight, bias = channels_last(images), weight.contiguous(), bias.contiguous()
    lanes, batch, height, width, channels = images.shape
    out = torch.empty_like(images)
    mean, variance = weight.new_empty((2, lanes, batch, channels))
    added = out if residual is None else channels_last(residual)
    _group_kernel[batch, lanes](
        images, added, weight, bias, out, mean, variance, height * width, epsilon,
        **_constants(channels, groups, residual is not None, relu),
    )  # fmt: skip
    return out.movedim(-1, 2), mean, variance


def backward(
    gradient: Tensor, images: Tensor, weight: Tensor, bias: Tensor, out: Tensor, mean: Tensor,
    variance: Tensor, with_residual: bool, relu: bool, epsilon: float, groups: int,
) -> tuple[Tensor | None, ...]:  # fmt: skip
    """Gradients of images, weight, bias and residual."""
    gradient, images, out = (channels_last(tensor) for tensor in (gradient, images, out))
    weight, bias, *statistics = (tensor.contiguous() for tensor in (weight, bias, mean, variance))
    lanes, batch, height, width, channels = images.shape
    to_images = torch.empty_like(images)
    to_residual = torch.empty_like(images) if with_residual else to_images  # not written
    to_weight, to_bias = weight.new_empty((2, lanes, batch, channels))
    _group_gradient_kernel[batch, lanes](
        gradient, images, out, weight, bias, *statistics,
        to_images, to_residual, to_weight, to_bias, height * width, epsilon,
        **_constants(channels, groups, with_residual, relu),
    )  # fmt: skip
    residual = to_residual.movedim(-1, 2) if with_residual else None
    return to_images.movedim(-1, 2), to_weight.sum(1), to_bias.sum(1), residual
