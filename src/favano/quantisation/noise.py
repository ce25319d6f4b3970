"""Uniform numbers for every element of a tensor, from one key: drawn anew wherever they are needed.

A generator would have to be carried from lane to lane. Here element i of a tensor has a number
that is a function of (key, place, i) alone, so lanes, processes and captured launches agree.
"""

from __future__ import annotations

from math import prod

import torch
from torch import Tensor

_GOLDEN = 0x9E3779B97F4A7C15
_MULTIPLIERS = (0xBF58476D1CE4E5B9 - 2**64, 0x94D049BB133111EB - 2**64)
# Of 32 bits: steps of the counter, then two multipliers with little bias (Wellons 2018).
_WEYL, _FIRST, _SECOND = 0x9E3779B9 - 2**32, 0x7FEB352D, 0x846CA68B - 2**32


def uniform_noise(key: Tensor, place: int, like: Tensor) -> Tensor:
    """Numbers on [0, 1), multiples of 2^-23, in the shape and type of a tensor.

    Args:
        key: 64 random bits as one int64, of a client's step.
        place: what in the step they are for: another number, other draws.
        like: a tensor of less than 2^31 elements.
    """
    drawn = _drawn(key, place, tuple(like.shape))
    return drawn.to(like.dtype).mul_(2.0**-23)


def keep_mask(key: Tensor, place: int, shape: tuple[int, ...], p: float) -> Tensor:
    """False with probability p, rounded to a multiple of 2^-23, for each place of this shape."""
    return _drawn(key, place, shape) >= round(p * 2**23)


def _drawn(key: Tensor, place: int, shape: tuple[int, ...]) -> Tensor:
    """23 random bits for each place of this shape, as int32."""
    offset = (place + 1) * _GOLDEN % 2**64
    word = _mixed(key + (offset - 2**64 if offset >= 2**63 else offset))
    low, high = word.to(torch.int32), (word >> 32).to(torch.int32)
    drawn = torch.arange(prod(shape), dtype=torch.int32, device=key.device) * _WEYL + low
    drawn = _shift(drawn, 16).bitwise_xor_(drawn).mul_(_FIRST).bitwise_xor_(high)
    drawn = _shift(drawn, 15).bitwise_xor_(drawn).mul_(_SECOND)
    return _shift(drawn, 9).view(shape)


def _mixed(word: Tensor) -> Tensor:
    """The finaliser of SplitMix64, as in `favano.rng`."""
    word = (word ^ ((word >> 30) & (2**34 - 1))) * _MULTIPLIERS[0]
    word = (word ^ ((word >> 27) & (2**37 - 1))) * _MULTIPLIERS[1]
    return word ^ ((word >> 31) & (2**33 - 1))


def _shift(bits: Tensor, places: int) -> Tensor:
    """32 bits shifted right, filling with zeros."""
    return (bits >> places).bitwise_and_(2 ** (32 - places) - 1)
