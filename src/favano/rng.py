"""Counter-based random draws: every number is a function of (seed, stream, client, index).

A stream of a client is a SplitMix64 sequence (Steele, Lea, Flood 2014) whose start is a hash of
(seed, stream, client); `index` jumps to any place in it. Nothing is stored between draws, so the
order in which a run is executed, batched or resumed cannot change it.

The mixer is defined once, for three kinds of 64-bit words: NumPy's uint64, Python's integers, and
PyTorch's int64, which holds the same bits (`training/device_draws.py`, `quantisation/noise.py`).
This module does not import PyTorch.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from enum import IntEnum
from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt

from favano.types import Floats, Ints

if TYPE_CHECKING:
    from torch import Tensor

Bits = npt.NDArray[np.uint64]
Word = TypeVar("Word", Bits, int, "Tensor")

GOLDEN = 0x9E3779B97F4A7C15  # step of the sequence: 2^64 divided by the golden ratio
MULTIPLIERS = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
SHORT_MULTIPLIERS = 0x7FEB352D, 0x846CA68B  # of 32 bits, with little bias (Wellons 2018)
_GOLDEN = np.uint64(GOLDEN)
EPOCH = 2**32  # numbers reserved for one permutation inside a client's stream


class Stream(IntEnum):
    """What a draw is for. Streams never share numbers; new ones are added at the end."""

    SPLIT = 1
    SPEED = 2
    MODEL = 3
    SELECTION = 4
    BATCHES = 5
    DURATIONS = 6
    AUGMENTATION = 7
    QUANTISER = 8
    HOLDOUT = 9
    ASSIGNMENT = 10
    LUQ = 11
    AVAILABILITY = 12
    FAULTS = 13


def _mix(z: Word, shift: Callable[[Word, int], Word], times: Callable[[Word, int], Word]) -> Word:
    """Finaliser of SplitMix64: a bijection of 64 bits in which every output bit depends on all.

    `shift` moves bits to the right and fills with zeros; `times` multiplies modulo 2^64 and may
    overwrite its first argument.
    """
    z = z ^ shift(z, 30)
    z = times(z, MULTIPLIERS[0])
    z ^= shift(z, 27)
    z = times(z, MULTIPLIERS[1])
    z ^= shift(z, 31)
    return z


def mix_array(z: Bits) -> Bits:
    """The finaliser for NumPy's words."""
    return _mix(z, operator.rshift, operator.imul)


def mix_integer(z: int) -> int:
    """The finaliser for one word of 0..2^64 - 1."""
    return _mix(z, operator.rshift, _times)


def mix_tensor(z: Tensor) -> Tensor:
    """The finaliser for PyTorch's int64, whose products wrap around as those of uint64 do."""
    return _mix(z, shifted, _times_tensor)


def _times(z: int, factor: int) -> int:
    return z * factor % 2**64


def _times_tensor(z: Tensor, factor: int) -> Tensor:
    return z * _SIGNED[factor]


def shifted(z: Tensor, places: int, width: int = 64) -> Tensor:
    """A tensor of signed words of this width, shifted right and filled with zeros."""
    return (z >> places).bitwise_and_(2 ** (width - places) - 1)


def signed(word: int, width: int = 64) -> int:
    """The signed number with the bits of this word.

    >>> signed(2**64 - 1), signed(5), signed(0xFFFFFFFE, width=32)
    (-1, 5, -2)
    """
    word %= 2**width
    return word - 2**width if word >= 2 ** (width - 1) else word


_SIGNED = {factor: signed(factor) for factor in MULTIPLIERS}


def bits(seed: int, stream: Stream, client: npt.ArrayLike = 0, index: npt.ArrayLike = 0) -> Bits:
    """64 random bits for each (client, index), broadcast against each other."""
    drawn = bits_of(np.atleast_1d(origin(seed, stream, client)), index)
    return drawn.reshape(np.broadcast_shapes(np.shape(client), np.shape(index)))


def bits_of(origins: Bits, index: npt.ArrayLike) -> Bits:
    """The same for clients whose sequences begin there, broadcast; 1 dimension at least."""
    with np.errstate(over="ignore"):
        counter = np.asarray(index).astype(np.uint64) + np.uint64(1)
        return mix_array(origins + counter * _GOLDEN)


def origin(seed: int, stream: Stream, client: npt.ArrayLike = 0) -> Bits:
    """Where the sequence of each client begins; `training/device_draws.py` starts there too."""
    with np.errstate(over="ignore"):
        key = np.asarray([seed % 2**64], dtype=np.uint64)
        for word in (np.uint64(stream), np.asarray(client).astype(np.uint64)):
            key = mix_array(key + (word + np.uint64(1)) * _GOLDEN)
    return key.reshape(np.shape(client))


@lru_cache(maxsize=1024)
def _origin(seed: int, stream: Stream, client: int) -> int:
    return int(origin(seed, stream, client))


def word(seed: int, stream: Stream, client: int, index: int) -> int:
    """The 64 bits of one place as a signed number, as `bits` gives them; without arrays, so fast.

    >>> word(3, Stream.LUQ, 5, 7) % 2**64 == int(bits(3, Stream.LUQ, 5, 7))
    True
    """
    return signed(mix_integer((_origin(seed, stream, client) + (index + 1) * GOLDEN) % 2**64))


def uniform(
    seed: int, stream: Stream, client: npt.ArrayLike = 0, index: npt.ArrayLike = 0
) -> Floats:
    """Uniform draws in the open interval (0, 1), so that logarithms are finite.

    >>> uniform(0, Stream.DURATIONS, client=[3, 5], index=2) == [
    ...     uniform(0, Stream.DURATIONS, 3, 2), uniform(0, Stream.DURATIONS, 5, 2)]
    array([ True,  True])
    """
    return unit_interval(bits(seed, stream, client, index))


def unit_interval(drawn: Bits) -> Floats:
    """The uniform draws that these bits are."""
    return np.asarray(((drawn >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52)


def permutation(seed: int, stream: Stream, size: int, client: int = 0, index: int = 0) -> Ints:
    """A random order of 0..size-1: the `index`-th one of this client and stream.

    >>> sorted(permutation(7, Stream.BATCHES, 5, client=2, index=1).tolist())
    [0, 1, 2, 3, 4]
    """
    begin = (_origin(seed, stream, client) + (index * EPOCH + 1) * GOLDEN) % 2**64
    places = np.arange(size, dtype=np.uint64)
    places *= _GOLDEN
    places += np.uint64(begin)  # as in `bits`, but with few small arrays: this is drawn often
    return np.argsort(mix_array(places), kind="stable")


def torch_seed(seed: int) -> int:
    """Seed of PyTorch's generator for the initial model of a run."""
    return int(bits(seed, Stream.MODEL)) >> 1


def normal(
    seed: int, stream: Stream, client: npt.ArrayLike = 0, index: npt.ArrayLike = 0
) -> Floats:
    """Standard normal draws by Box and Muller, one from the two halves of 64 bits."""
    drawn = bits(seed, stream, client, index)
    radius = ((drawn >> np.uint64(32)).astype(np.float64) + 0.5) * 2.0**-32
    angle = (drawn & np.uint64(0xFFFFFFFF)).astype(np.float64) * 2.0**-32
    return np.asarray(np.sqrt(-2.0 * np.log(radius)) * np.cos(2.0 * np.pi * angle))
