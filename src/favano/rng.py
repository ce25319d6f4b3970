"""Counter-based random draws: every number is a function of (seed, stream, client, index).

A stream of a client is a SplitMix64 sequence (Steele, Lea, Flood 2014) whose start is a hash of
(seed, stream, client); `index` jumps to any place in it. Nothing is stored between draws, so the
order in which a run is executed, batched or resumed cannot change it.
"""

from __future__ import annotations

from enum import IntEnum
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from favano.types import Floats, Ints

Bits = npt.NDArray[np.uint64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_EPOCH = np.uint64(1) << np.uint64(32)  # room for one permutation inside a client's stream


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


def _mix(z: Bits) -> Bits:
    """Finaliser of SplitMix64: a bijection of 64 bits in which every output bit depends on all."""
    z = z ^ (z >> np.uint64(30))
    z *= np.uint64(0xBF58476D1CE4E5B9)
    z ^= z >> np.uint64(27)
    z *= np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return z


def bits(seed: int, stream: Stream, client: npt.ArrayLike = 0, index: npt.ArrayLike = 0) -> Bits:
    """64 random bits for each (client, index), broadcast against each other."""
    with np.errstate(over="ignore"):
        counter = np.asarray(index).astype(np.uint64) + np.uint64(1)
        drawn = _mix(np.atleast_1d(origin(seed, stream, client)) + counter * _GOLDEN)
    return drawn.reshape(np.broadcast_shapes(np.shape(client), np.shape(index)))


def origin(seed: int, stream: Stream, client: npt.ArrayLike = 0) -> Bits:
    """Where a client's sequence begins; with it `training/device_draws.py` draws the same."""
    with np.errstate(over="ignore"):
        key = np.asarray([seed % 2**64], dtype=np.uint64)
        for word in (np.uint64(stream), np.asarray(client).astype(np.uint64)):
            key = _mix(key + (word + np.uint64(1)) * _GOLDEN)
    return key.reshape(np.shape(client))


@lru_cache(maxsize=1024)
def _origin(seed: int, stream: Stream, client: int) -> int:
    return int(origin(seed, stream, client))


def word(seed: int, stream: Stream, client: int, index: int) -> int:
    """The same 64 bits of one place as a signed number; drawn often, so without arrays.

    >>> word(3, Stream.LUQ, 5, 7) % 2**64 == int(bits(3, Stream.LUQ, 5, 7))
    True
    """
    z = (_origin(seed, stream, client) + (index + 1) * int(_GOLDEN)) % 2**64
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
    z ^= z >> 31
    return z - 2**64 if z >= 2**63 else z


def uniform(
    seed: int, stream: Stream, client: npt.ArrayLike = 0, index: npt.ArrayLike = 0
) -> Floats:
    """Uniform draws in the open interval (0, 1), so that logarithms are finite.

    >>> uniform(0, Stream.DURATIONS, client=[3, 5], index=2) == [
    ...     uniform(0, Stream.DURATIONS, 3, 2), uniform(0, Stream.DURATIONS, 5, 2)]
    array([ True,  True])
    """
    high = bits(seed, stream, client, index) >> np.uint64(12)
    return np.asarray((high.astype(np.float64) + 0.5) * 2.0**-52)


def permutation(seed: int, stream: Stream, size: int, client: int = 0, index: int = 0) -> Ints:
    """A random order of 0..size-1: the `index`-th one of this client and stream.

    >>> sorted(permutation(7, Stream.BATCHES, 5, client=2, index=1).tolist())
    [0, 1, 2, 3, 4]
    """
    begin = (_origin(seed, stream, client) + (index * int(_EPOCH) + 1) * int(_GOLDEN)) % 2**64
    places = np.arange(size, dtype=np.uint64)
    places *= _GOLDEN
    places += np.uint64(begin)  # as `bits` has it, with few small arrays: this is drawn often
    return np.argsort(_mix(places), kind="stable")


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
