"""Weights in the order in which the kernels of a convolution read them, and gradients back."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

_NUMBERS = 4096  # weights that a program reads at once
_CONTIGUOUS = 64  # of them, the most that are contiguous in the order of the kernels
_PARTS = 8  # parts of a gradient that are read at once


@triton.jit
def _weight(INPUTS: tl.constexpr, SIZE: tl.constexpr,
            FILTERS: tl.constexpr, CHANNELS: tl.constexpr, PLACES: tl.constexpr):  # fmt: skip
    """Filters, channels and taps of a program, and their places in weights (O, I, k, k)."""
    filters = (tl.program_id(0) * FILTERS + tl.arange(0, FILTERS))[:, None, None]
    channel = (tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS))[None, :, None]
    tap = tl.arange(0, PLACES)[None, None, :]
    return filters, channel, tap, (filters * INPUTS + channel) * SIZE * SIZE + tap


@triton.jit
def _taps_kernel(
    weights, taps, between,
    INPUTS: tl.constexpr, OUTPUTS: tl.constexpr, SIZE: tl.constexpr,
    TURNED: tl.constexpr, FILTERS: tl.constexpr, CHANNELS: tl.constexpr, PLACES: tl.constexpr,
):  # fmt: skip
    """taps[y, o, x, i] = weights[o, i, y, x], or turned weights[i, o, k - 1 - y, k - 1 - x].

    The weights of two lanes are `between` numbers apart.
    """
    filters, channel, tap, at = _weight(INPUTS, SIZE, FILTERS, CHANNELS, PLACES)
    lane = tl.program_id(2).to(tl.int64)
    there = (filters < OUTPUTS) & (channel < INPUTS) & (tap < SIZE * SIZE)
    weight = tl.load(weights + lane * between + at, mask=there, other=0.0)
    if TURNED:
        tap = SIZE * SIZE - 1 - tap
        to = ((tap // SIZE * INPUTS + channel) * SIZE + tap % SIZE) * OUTPUTS + filters
    else:
        to = ((tap // SIZE * OUTPUTS + filters) * SIZE + tap % SIZE) * INPUTS + channel
    taps += lane * SIZE * SIZE * INPUTS * OUTPUTS
    tl.store(taps + to, weight.to(taps.dtype.element_ty), mask=there)


@triton.jit(do_not_specialize=["count"])
def _parts_kernel(
    parts, gradient, count,
    INPUTS: tl.constexpr, OUTPUTS: tl.constexpr, SIZE: tl.constexpr, AT_ONCE: tl.constexpr,
    FILTERS: tl.constexpr, CHANNELS: tl.constexpr, PLACES: tl.constexpr,
):  # fmt: skip
    """gradient[o, i, y, x] = sum of parts[y, x, i, o]."""
    filters, channel, tap, to = _weight(INPUTS, SIZE, FILTERS, CHANNELS, PLACES)
    lane, lanes = tl.program_id(2).to(tl.int64), tl.num_programs(2)
    known = (filters < OUTPUTS) & (channel < INPUTS) & (tap < SIZE * SIZE)
    at = (tap * INPUTS + channel) * OUTPUTS + filters
    total = tl.zeros((FILTERS, CHANNELS, PLACES), dtype=tl.float32)
    for first in range(0, count, AT_ONCE):
        for part in tl.static_range(AT_ONCE):
            here = parts + ((first + part) * lanes + lane) * SIZE * SIZE * INPUTS * OUTPUTS
            total += tl.load(here + at, mask=known & (first + part < count), other=0.0)
    tl.store(gradient + lane * OUTPUTS * INPUTS * SIZE * SIZE + to, total, mask=known)


def _tiles(
    weights: tuple[int, ...], numbers: int, *, along_filters: bool
) -> tuple[tuple[int, int], dict[str, int]]:
    """How many tiles of `numbers` there are of filters and of channels, and their constants."""
    filters, channels, size, _ = weights
    places = int(triton.next_power_of_2(size**2))
    long = min(_CONTIGUOUS, int(triton.next_power_of_2(filters if along_filters else channels)))
    short = max(1, numbers // (long * places))
    high, wide = (long, short) if along_filters else (short, long)
    return (triton.cdiv(filters, high), triton.cdiv(channels, wide)), {
        "INPUTS": channels, "OUTPUTS": filters, "SIZE": size,
        "FILTERS": high, "CHANNELS": wide, "PLACES": places,
    }  # fmt: skip


def make_taps(weights: Tensor, dtype: torch.dtype, *, turned: bool) -> Tensor:
    """Weights (L, O, I, k, k) as (L, k, O, k, I): each row of taps is contiguous.

    With `turned`, I and O are swapped and taps reversed.
    """
    if not weights[0].is_contiguous():
        weights = weights.contiguous()
    lanes, filters, channels, size, _ = weights.shape
    inputs, outputs = (filters, channels) if turned else (channels, filters)
    taps = weights.new_empty((lanes, size, outputs, size, inputs), dtype=dtype)
    tiles, how = _tiles(weights.shape[1:], _NUMBERS, along_filters=turned)
    _taps_kernel[*tiles, lanes](weights, taps, weights.stride(0), TURNED=turned, **how)
    return taps


def sum_parts(parts: Tensor) -> Tensor:
    """The gradient of the weights, (L, O, I, k, k), from parts (count, L, k, k, I, O)."""
    count, lanes, size, _, channels, filters = parts.shape
    gradient = parts.new_empty((lanes, filters, channels, size, size))
    at_once = min(_PARTS, int(triton.next_power_of_2(count)))
    tiles, how = _tiles(gradient.shape[1:], _NUMBERS // at_once, along_filters=True)
    _parts_kernel[*tiles, lanes](parts, gradient, count, AT_ONCE=at_once, **how)
    return gradient
