"""The weights of a convolution as its kernels read them, and their gradient from its parts.

Results are computed in squares of `side` by `side` pixels. A square has side side O numbers, and
depends on a window of k + (side - 1) stride pixels in each direction.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

_CHANNELS = 32  # of a program
_NUMBERS = 4096  # taps that a program handles at once


@triton.jit
def _taps_kernel(
    weights, taps, between,
    INPUTS: tl.constexpr, IN: tl.constexpr, OUT: tl.constexpr, SIZE: tl.constexpr,
    STRIDE: tl.constexpr, SIDE: tl.constexpr, TURNED: tl.constexpr,
    FILTERS: tl.constexpr, CHANNELS: tl.constexpr, PLACES: tl.constexpr,
):  # fmt: skip
    """taps[y, (i, j, o), x, c] = weights[o, c, y - i stride, x - j stride], or 0 outside.

    Channels c from `INPUTS` up to `IN` are 0 as well. Turned, the weight is that of filter c and
    channel o, at the tap on the opposite side. Weights of two lanes are `between` numbers apart.
    """
    lane = tl.program_id(2).to(tl.int64)
    out = (tl.program_id(0) * FILTERS + tl.arange(0, FILTERS))[:, None, None]
    channel = (tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS))[None, :, None]
    place = tl.arange(0, PLACES)[None, None, :]
    WINDOW: tl.constexpr = SIZE + (SIDE - 1) * STRIDE
    y, x = place // WINDOW, place % WINDOW
    weights += lane * between
    taps += lane * WINDOW * WINDOW * SIDE * SIDE * OUT * IN
    first = (channel * OUT + out if TURNED else out * INPUTS + channel) * SIZE * SIZE
    there = (out < OUT) & (channel < INPUTS)
    known = (out < OUT) & (channel < IN) & (place < WINDOW * WINDOW)
    for square in tl.static_range(SIDE * SIDE):
        up, left = y - square // SIDE * STRIDE, x - square % SIDE * STRIDE
        inside = (up >= 0) & (up < SIZE) & (left >= 0) & (left < SIZE)
        tap = up * SIZE + left
        if TURNED:
            tap = SIZE * SIZE - 1 - tap
        value = tl.load(weights + first + tap, mask=there & inside, other=0.0)
        at = (((y * SIDE * SIDE + square) * OUT + out) * WINDOW + x) * IN + channel
        tl.store(taps + at, value.to(taps.dtype.element_ty), mask=known)


@triton.jit(do_not_specialize=["count"])
def _parts_kernel(
    parts, gradient, count,
    INPUTS: tl.constexpr, IN: tl.constexpr, OUT: tl.constexpr, SIZE: tl.constexpr,
    STRIDE: tl.constexpr, SIDE: tl.constexpr,
    FILTERS: tl.constexpr, CHANNELS: tl.constexpr, PLACES: tl.constexpr,
):  # fmt: skip
    """gradient[o, c, y, x] = sum of parts[(i, j, o), y + i stride, x + j stride, c]."""
    lane, lanes = tl.program_id(2).to(tl.int64), tl.num_programs(2)
    out = (tl.program_id(0) * FILTERS + tl.arange(0, FILTERS))[:, None, None]
    channel = (tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS))[None, :, None]
    place = tl.arange(0, PLACES)[None, None, :]
    known = (out < OUT) & (channel < INPUTS) & (place < SIZE * SIZE)
    WINDOW: tl.constexpr = SIZE + (SIDE - 1) * STRIDE
    PART: tl.constexpr = SIDE * SIDE * OUT * WINDOW * WINDOW * IN
    total = tl.zeros((FILTERS, CHANNELS, PLACES), dtype=tl.float32)
    for part in range(count):
        here = parts + (part * lanes + lane) * PART
        for square in tl.static_range(SIDE * SIDE):
            y, x = place // SIZE + square // SIDE * STRIDE, place % SIZE + square % SIDE * STRIDE
            at = (((square * OUT + out) * WINDOW + y) * WINDOW + x) * IN + channel
            total += tl.load(here + at, mask=known, other=0.0)
    at = (out * INPUTS + channel) * SIZE * SIZE + place
    tl.store(gradient + lane * OUT * INPUTS * SIZE * SIZE + at, total, mask=known)


def _tiles(outputs: int, inputs: int, places: int) -> tuple[tuple[int, int], dict[str, int]]:
    """How many tiles there are of filters and of channels, and their sizes."""
    deep = int(triton.next_power_of_2(places))
    wide = min(_CHANNELS, max(4, int(triton.next_power_of_2(inputs))))
    high = max(1, _NUMBERS // (wide * deep))
    tiles = triton.cdiv(outputs, high), triton.cdiv(inputs, wide)
    return tiles, {"FILTERS": high, "CHANNELS": wide, "PLACES": deep}


def make_taps(
    weights: Tensor, inputs: int, dtype: torch.dtype, stride: int, side: int, *, turned: bool
) -> Tensor:
    """Weights (L, O, I, k, k) as (L, window, side side O, window, inputs).

    There may be more `inputs` than I. With `turned`, I and O are swapped.
    """
    if not weights[0].is_contiguous():
        weights = weights.contiguous()
    lanes, outputs, channels, size, _ = weights.shape
    if turned:
        outputs, channels = channels, outputs
    window = size + (side - 1) * stride
    taps = weights.new_empty((lanes, window, side**2 * outputs, window, inputs), dtype=dtype)
    tiles, how = _tiles(outputs, inputs, window**2)
    _taps_kernel[*tiles, lanes](
        weights, taps, weights.stride(0), INPUTS=channels, IN=inputs, OUT=outputs, SIZE=size,
        STRIDE=stride, SIDE=side, TURNED=turned, **how,
    )  # fmt: skip
    return taps


def sum_parts(
    parts: Tensor, shape: tuple[int, int, int, int], inputs: int, stride: int, side: int
) -> Tensor:
    """The gradient of the weights, (L, *shape), from parts (count, L, side side O, ...)."""
    count, lanes = parts.shape[:2]
    outputs, channels, size, _ = shape
    gradient = parts.new_empty((lanes, *shape))
    tiles, how = _tiles(outputs, channels, size**2)
    _parts_kernel[*tiles, lanes](
        parts, gradient, count, INPUTS=channels, IN=inputs, OUT=outputs, SIZE=size,
        STRIDE=stride, SIDE=side, **how,
    )  # fmt: skip
    return gradient
