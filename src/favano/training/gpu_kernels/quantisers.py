"""Triton kernels of SAWB and LUQ, for tensors (L, ...) of which each lane is dense in memory.

Numbers are read in the order of memory. One kernel computes statistics of each lane, another one
rounds it. Results have the type and the layout of what is given; in between all is float32.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from favano.quantisation import sawb
from favano.quantisation.recipe import GridName
from favano.rng import GOLDEN, MULTIPLIERS, SHORT_MULTIPLIERS, signed

_NUMBERS = 2048  # that a program handles
_PARTS = 256  # whose statistics are added up at once
_TO_WHOLE = tl.constexpr(1.5 * 2**23)  # a small float32 plus this is rounded to a whole number

# Of the draws, as in `favano.quantisation.noise`: of 64 bits, then of 32.
_GOLDEN = tl.constexpr(signed(GOLDEN))
_MIX, _MIX_AGAIN = (tl.constexpr(signed(multiplier)) for multiplier in MULTIPLIERS)
_STEP = tl.constexpr(signed(GOLDEN >> 32, width=32))
_FIRST, _SECOND = (tl.constexpr(signed(multiplier, width=32)) for multiplier in SHORT_MULTIPLIERS)


@triton.jit
def _numbers(count, NUMBERS: tl.constexpr):
    """The lane of a program, places of its numbers, and which of them exist."""
    place = tl.program_id(0) * NUMBERS + tl.arange(0, NUMBERS)
    return tl.program_id(1).to(tl.int64), place, place < count


@triton.jit
def _statistics_kernel(values, partial, count, apart, NUMBERS: tl.constexpr):
    """Sum of squares and of magnitudes, largest magnitude, smallest number of each program.

    The values of two lanes are `apart` numbers apart.
    """
    lane, place, known = _numbers(count, NUMBERS)
    value = tl.load(values + lane * apart + place, mask=known, other=0.0).to(tl.float32)
    magnitude = tl.abs(value)
    total, most = tl.sum(magnitude, 0), tl.max(magnitude, 0)
    parts = tl.num_programs(0)
    partial += lane * 4 * parts + tl.program_id(0)
    tl.store(partial, tl.sum(value * value, 0))
    tl.store(partial + parts, total)
    # A maximum skips NaN, a sum does not.
    tl.store(partial + 2 * parts, tl.where(total == total, most, total))
    tl.store(partial + 3 * parts, tl.min(tl.where(known, value, float("inf")), 0))


@triton.jit(do_not_specialize=["parts", "lanes", "count"])
def _levels_kernel(
    partial, levels, parts, lanes, count,
    FIRST: tl.constexpr, SECOND: tl.constexpr, LEAST: tl.constexpr,
    TOP: tl.constexpr, ONE_SIDE: tl.constexpr, REACH: tl.constexpr, PARTS: tl.constexpr,
):  # fmt: skip
    """The step of a lane's levels and the largest of them, as `sawb.activation_grid`.

    With `ONE_SIDE` 0 as `sawb.weight_grid`. The order of sums does not depend on other lanes.
    """
    lane = tl.program_id(0).to(tl.int64)
    partial += lane * 4 * parts
    squares = tl.zeros((PARTS,), dtype=tl.float32)
    magnitudes = tl.zeros((PARTS,), dtype=tl.float32)
    largest = tl.zeros((PARTS,), dtype=tl.float32)
    smallest = tl.full((PARTS,), float("inf"), dtype=tl.float32)
    for first in range(0, parts, PARTS):
        part = first + tl.arange(0, PARTS)
        known = part < parts
        squares += tl.load(partial + part, mask=known, other=0.0)
        magnitudes += tl.load(partial + parts + part, mask=known, other=0.0)
        most = tl.load(partial + 2 * parts + part, mask=known, other=0.0)
        least = tl.load(partial + 3 * parts + part, mask=known, other=float("inf"))
        largest, smallest = tl.maximum(largest, most), tl.minimum(smallest, least)
    number, most = count.to(tl.float32), tl.max(largest, 0)
    spread = tl.sqrt_rn(tl.div_rn(tl.sum(squares, 0), number))
    clip = FIRST * spread - SECOND * tl.div_rn(tl.sum(magnitudes, 0), number)
    clip = tl.where((clip < LEAST * spread) | (clip > most), most, clip)  # NaN stays
    step, high = tl.div_rn(clip, 1.0 * TOP), 1.0 * TOP
    if ONE_SIDE:
        signed = tl.min(smallest, 0) < 0
        step = tl.where(signed, step, tl.div_rn(REACH * clip, 1.0 * ONE_SIDE))
        high = tl.where(signed, high, 1.0 * ONE_SIDE)
    tl.store(levels + lane, tl.where(clip == 0, 1.0, step))
    tl.store(levels + lanes + lane, high)


@triton.jit
def _round_kernel(
    values, out, steps, highest, count, apart,
    LOW: tl.constexpr, NUDGE: tl.constexpr, NUMBERS: tl.constexpr,
):  # fmt: skip
    """As `sawb.rounded`. Clamped before rounding, which is the same, and with NaN left alone."""
    lane, place, known = _numbers(count, NUMBERS)
    step, high = tl.load(steps + lane), tl.load(highest + lane)
    value = tl.load(values + lane * apart + place, mask=known, other=0.0).to(tl.float32)
    level = value * tl.div_rn(NUDGE, step)  # a quotient of each number would take most of the time
    level = tl.where(level < LOW, LOW, level)
    level = tl.where(level > high, high, level)
    level = (level + _TO_WHOLE) - _TO_WHOLE
    tl.store(out + lane * count + place, (level * step).to(out.dtype.element_ty), mask=known)


@triton.jit
def _mask_kernel(
    gradient, values, out, steps, highest, count, between, apart,
    LOW: tl.constexpr, NUDGE: tl.constexpr, NUMBERS: tl.constexpr,
):  # fmt: skip
    """The gradient where `sawb.inside` holds, else 0."""
    lane, place, known = _numbers(count, NUMBERS)
    step, high = tl.load(steps + lane), tl.load(highest + lane)
    value = tl.load(values + lane * apart + place, mask=known, other=0.0).to(tl.float32)
    inside = (value >= LOW * step * NUDGE) & (value <= high * step * NUDGE)
    passed = tl.load(gradient + lane * between + place, mask=known, other=0.0).to(tl.float32)
    passed = passed * inside.to(tl.float32)  # not a choice: NaN stays
    tl.store(out + lane * count + place, passed.to(out.dtype.element_ty), mask=known)


@triton.jit
def _mixed(word):
    """The finaliser of `favano.rng`, of a signed word."""
    word = (word ^ ((word >> 30) & 0x3FFFFFFFF)) * _MIX
    word = (word ^ ((word >> 27) & 0x1FFFFFFFFF)) * _MIX_AGAIN
    return word ^ ((word >> 31) & 0x1FFFFFFFF)


@triton.jit
def uniform_noise(key, place, index):
    """Uniform numbers for these elements, as `favano.quantisation.noise`."""
    word = _mixed(key + (place + 1).to(tl.int64) * _GOLDEN)
    low, high = word.to(tl.int32), (word >> 32).to(tl.int32)
    drawn = index * _STEP + low
    drawn = ((drawn ^ ((drawn >> 16) & 0xFFFF)) * _FIRST) ^ high
    drawn = (drawn ^ ((drawn >> 15) & 0x1FFFF)) * _SECOND
    return ((drawn >> 9) & 0x7FFFFF).to(tl.float32) * (1.0 / 8388608.0)


@triton.jit
def _power_below(value):
    """The largest power of two that is not above a positive number: clears its mantissa."""
    return (value.to(tl.int32, bitcast=True) & 0x7F800000).to(tl.float32, bitcast=True)


@triton.jit(do_not_specialize=["place"])
def _luq_kernel(
    gradient, out, largest, keys, count, apart, place,
    SHARE: tl.constexpr, TINY: tl.constexpr, SAMPLES: tl.constexpr,
    CHANNELS: tl.constexpr, PIXELS: tl.constexpr, NUMBERS: tl.constexpr,
):  # fmt: skip
    """As `luq`, the mean of some draws.

    Draws belong to elements in the order (channels, pixels), which lie as (pixels, channels).
    """
    lane, number, known = _numbers(count, NUMBERS)
    image, pixel = number // (PIXELS * CHANNELS), number // CHANNELS % PIXELS
    index = (image * CHANNELS + number % CHANNELS) * PIXELS + pixel
    value = tl.load(gradient + lane * apart + number, mask=known, other=0.0).to(tl.float32)
    unit, key = tl.load(largest + lane) * SHARE, tl.load(keys + lane)
    unit = tl.where(unit < TINY, TINY, unit)
    share = tl.minimum(tl.abs(value) * tl.div_rn(1.0, unit), 1.0 / SHARE)
    lower = _power_below(tl.where(share < 1.0, 1.0, share))
    total = tl.zeros((NUMBERS,), dtype=tl.float32)
    for draw in tl.static_range(SAMPLES):
        lifted = lower * uniform_noise(key, place + draw, index) + share
        total += tl.where(lifted < 1.0, 0.0, _power_below(lifted))
    mean = total * unit * (1.0 / SAMPLES)
    mean = tl.where(value < 0.0, -mean, mean)
    tl.store(out + lane * count + number, mean.to(out.dtype.element_ty), mask=known)


class _Lanes(NamedTuple):
    """A tensor whose lanes are dense, and how elements in (channels, pixels) lie in memory."""

    values: Tensor
    channels: int = 1
    pixels: int = 1

    @property
    def count(self) -> int:
        """Numbers per lane."""
        return self.values[0].numel()

    @property
    def programs(self) -> tuple[int, int]:
        """The grid of programs."""
        return triton.cdiv(self.count, _NUMBERS), len(self.values)

    def empty(self) -> Tensor:
        """A result in the same layout."""
        strides = self.count, *self.values.stride()[1:]
        return self.values.new_empty_strided(self.values.shape, strides)


def _dense(values: Tensor) -> _Lanes:
    """Each lane row by row, with channels last, or column by column; copied only if necessary."""
    lane = values[0]
    if lane.is_contiguous():
        return _Lanes(values)
    if lane.ndim == 4 and lane.is_contiguous(memory_format=torch.channels_last):
        return _Lanes(values, lane.shape[1], lane.shape[2] * lane.shape[3])
    if lane.ndim == 2 and lane.T.is_contiguous():
        return _Lanes(values, *lane.shape)
    return _Lanes(values.contiguous())


def _statistics(lanes: _Lanes) -> Tensor:
    """(L, 4, parts): sums of squares and of magnitudes, largest magnitudes, smallest numbers."""
    values, (parts, number) = lanes.values, lanes.programs
    partial = values.new_empty((number, 4, parts), dtype=torch.float32)
    _statistics_kernel[parts, number](
        values, partial, lanes.count, values.stride(0), NUMBERS=_NUMBERS
    )
    return partial


def _levels(lanes: _Lanes, kind: str, bits: int, name: GridName) -> Tensor:
    """(2, L): step and largest level of each lane; `kind` is weights or activations."""
    partial = _statistics(lanes)
    number, _, parts = partial.shape
    levels, (first, second) = partial.new_empty((2, number)), sawb.constants(bits, name)
    _levels_kernel[number,](
        partial, levels, parts, number, lanes.count,
        FIRST=first, SECOND=second, LEAST=sawb.LEAST, TOP=sawb.largest_level(bits, name),
        ONE_SIDE=2**bits - 1 if kind == "activations" else 0, REACH=sawb.reach(name), PARTS=_PARTS,
    )  # fmt: skip
    return levels


def rounded(values: Tensor, kind: str, bits: int, name: GridName) -> Tensor:
    """The nearest levels of SAWB, for each lane of (L, ...)."""
    lanes = _dense(values)
    out = lanes.empty()
    _round_kernel[lanes.programs](
        lanes.values, out, *_levels(lanes, kind, bits, name), lanes.count, lanes.values.stride(0),
        LOW=-float(sawb.largest_level(bits, name)), NUDGE=sawb.NUDGE, NUMBERS=_NUMBERS,
    )  # fmt: skip
    return out


def masked(gradient: Tensor, values: Tensor, kind: str, bits: int, name: GridName) -> Tensor:
    """The gradient where SAWB does not clip the values, else 0."""
    lanes = _dense(values)
    out = lanes.empty()
    if gradient.stride()[1:] != out.stride()[1:]:
        gradient = torch.empty_like(out).copy_(gradient)
    _mask_kernel[lanes.programs](
        gradient, lanes.values, out, *_levels(lanes, kind, bits, name),
        lanes.count, gradient.stride(0), lanes.values.stride(0),
        LOW=-float(sawb.largest_level(bits, name)), NUDGE=sawb.NUDGE, NUMBERS=_NUMBERS,
    )  # fmt: skip
    return out


def luq(gradient: Tensor, key: Tensor, place: int, levels: int, samples: int) -> Tensor:
    """The mean of some draws of LUQ, for each lane of (L, ...) with the keys (L,)."""
    lanes = _dense(gradient)
    largest, out = _statistics(lanes)[:, 2].amax(1), lanes.empty()
    _luq_kernel[lanes.programs](
        lanes.values, out, largest, key.contiguous(), lanes.count, lanes.values.stride(0),
        place, SHARE=2.0 ** (1 - levels), TINY=torch.finfo(torch.float32).tiny, SAMPLES=samples,
        CHANNELS=lanes.channels, PIXELS=lanes.pixels, NUMBERS=_NUMBERS,
    )  # fmt: skip
    return out
