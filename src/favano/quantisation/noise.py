"""Uniform numbers for each element of a tensor, from one key.

A generator would have to be carried from lane to lane. Here the number of element i is a function
of (key, place, i) alone, so lanes, processes and captured launches agree.
"""

from __future__ import annotations

from math import prod

import torch
from torch import Tensor

from favano.rng import GOLDEN, SHORT_MULTIPLIERS, mix_tensor, shifted, signed

# Of 32 bits: the step of the counter, then the two multipliers.
_STEP = signed(GOLDEN >> 32, width=32)
_FIRST, _SECOND = (signed(multiplier, width=32) for multiplier in SHORT_MULTIPLIERS)


def uniform_noise(key: Tensor, place: int, like: Tensor) -> Tensor:
    """Numbers on [0, 1), multiples of 2^-23, in the shape and type of a tensor.

    Args:
        key: 64 random bits as one int64, one key per client and step.
        place: what the draws are for within the step; other places have other draws.
        like: a tensor of less than 2^31 elements.
    """
    drawn = _drawn(key, place, tuple(like.shape))
    return drawn.to(like.dtype).mul_(2.0**-23)


def keep_mask(key: Tensor, place: int, shape: tuple[int, ...], p: float) -> Tensor:
    """False with probability p, rounded to a multiple of 2^-23, for each place of this shape."""
    return _drawn(key, place, shape) >= round(p * 2**23)


def _drawn(key: Tensor, place: int, shape: tuple[int, ...]) -> Tensor:
    """23 random bits for each place of this shape, as int32."""
    word = mix_tensor(key + signed((place + 1) * GOLDEN))
    low, high = word.to(torch.int32), (word >> 32).to(torch.int32)
    drawn = torch.arange(prod(shape), dtype=torch.int32, device=key.device) * _STEP + low
    drawn = shifted(drawn, 16, 32).bitwise_xor_(drawn).mul_(_FIRST).bitwise_xor_(high)
    drawn = shifted(drawn, 15, 32).bitwise_xor_(drawn).mul_(_SECOND)
    return shifted(drawn, 9, 32).view(shape)
