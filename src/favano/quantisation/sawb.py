"""SAWB: weights and activations rounded to few levels (Choi et al. 2019), tensor by tensor."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final, NamedTuple

import torch
from torch import Tensor

from favano.quantisation.recipe import GridName

# c1 and c2 by bits, fitted by SAWB's authors to bell-shaped tensors.
CONSTANTS: Final[Mapping[int, tuple[float, float]]] = {
    2: (3.12, 2.064),
    3: (7.509, 6.892),
    4: (12.68, 12.80),
}
_RELEASED: Final = {4: (12.1, 12.2)}  # in LUQ's public code
LEAST: Final = 0.5  # smallest clip, relative to the root mean square
# Values halfway between two levels are common, since the largest value often is a level. They are
# rounded away from zero whatever their last bits, which may differ between lanes and plain loop.
NUDGE: Final = 1 + 2.0**-20


class Grid(NamedTuple):
    """The levels: `step` times the whole numbers `low`..`high`."""

    step: Tensor
    low: int
    high: Tensor


def clip_of(values: Tensor, bits: int, name: GridName = "sawb") -> Tensor:
    """c = c1 sqrt(mean x^2) - c2 mean |x|, but at most max |x|.

    With 2 and 3 bits c is at least 0.617 times the root mean square. With 4 bits it may be negative
    if all |x| are nearly equal: below half the root mean square, c is max |x| [our choice].
    """
    first, second = constants(bits, name)
    magnitudes = values.abs()
    spread = torch.linalg.vector_norm(values) / math.sqrt(values.numel())
    clip = first * spread - second * magnitudes.mean()
    largest = magnitudes.amax()
    return torch.where(clip < LEAST * spread, largest, torch.minimum(clip, largest))


def weight_grid(values: Tensor, bits: int, name: GridName = "sawb") -> Grid:
    """2^b - 1 levels from -c to c.

    Differs from LUQ's public code (`released`), which has 2^b + 1 levels, one more than b bits can
    distinguish: -2^(b-1)..2^(b-1) steps of c / 2^(b-1).
    """
    top = largest_level(bits, name)
    return Grid(_step(clip_of(values, bits, name), top), -top, values.new_full((), top))


def activation_grid(values: Tensor, bits: int, name: GridName = "sawb") -> Grid:
    """2^b levels from 0 to c if no value is negative, else those of weights.

    Differs from LUQ's public code (`released`), which has the levels from 0 to 2c.
    """
    clip, signed = clip_of(values, bits, name), values.amin() < 0
    top, one_side = largest_level(bits, name), 2**bits - 1
    return Grid(
        torch.where(signed, _step(clip, top), _step(reach(name) * clip, one_side)),
        -top,  # matters only if there are negative values
        torch.where(signed, float(top), float(one_side)),
    )


def rounded(values: Tensor, grid: Grid) -> Tensor:
    """The nearest level: step clamp(round(x / step), low, high)."""
    levels = (values / (grid.step / NUDGE)).round_().clamp(min=grid.low)
    # A minimum is ten times as fast as clamping to a tensor.
    return torch.minimum(levels, grid.high).mul_(grid.step)


def inside(values: Tensor, grid: Grid) -> Tensor:
    """Which values are not clipped."""
    least, most = grid.low * grid.step, grid.high * grid.step
    return (values >= least * NUDGE) & (values <= most * NUDGE)


def constants(bits: int, name: GridName) -> tuple[float, float]:
    """c1 and c2."""
    return _RELEASED.get(bits, CONSTANTS[bits]) if name == "released" else CONSTANTS[bits]


def reach(name: GridName) -> int:
    """The largest level of activations that are not negative, in clips."""
    return 2 if name == "released" else 1


def largest_level(bits: int, name: GridName) -> int:
    """The largest level of weights in steps."""
    half = 1 << (bits - 1)
    return half - 1 if name == "sawb" else half


def _step(clip: Tensor, levels: int) -> Tensor:
    """c / levels; 1 for a tensor of zeros, which stays zero."""
    return torch.where(clip == 0, 1.0, clip / levels)
