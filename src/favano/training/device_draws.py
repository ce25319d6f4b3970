"""The draws of `favano.rng` made on the device: the same bits, without a trip to the host."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from favano.rng import Bits
from favano.types import Floats, Ints

_GOLDEN = np.array(0x9E3779B97F4A7C15, dtype=np.uint64).astype(np.int64).item()
_FIRST = np.array(0xBF58476D1CE4E5B9, dtype=np.uint64).astype(np.int64).item()
_SECOND = np.array(0x94D049BB133111EB, dtype=np.uint64).astype(np.int64).item()
_SIGN = -(2**63)
_AT_ONCE = 32 << 10  # bytes


def to_device(values: Ints | Floats, like: Tensor) -> Tensor:
    """Numbers of the host on the device of a tensor, without waiting for what it is doing.

    The driver takes small copies at once. For a large one it waits until all that was asked of the
    device before is done, unless the numbers lie in pinned memory.
    """
    given = torch.from_numpy(values)
    if like.is_cuda and values.nbytes > _AT_ONCE:
        given = given.pin_memory()
    return given.to(like.device, non_blocking=True)


def on_device(origins: Bits, device: torch.device) -> Tensor:
    """Origins of sequences (`favano.rng.origin`) as the int64 that holds the same bits."""
    return torch.from_numpy(origins.astype(np.int64)).to(device)


def device_bits(origins: Tensor, index: Tensor) -> Tensor:
    """64 random bits for each (origin, index), as int64; arithmetic wraps as it does in NumPy."""
    mixed = origins + (index + 1) * _GOLDEN
    mixed = (mixed ^ _shift(mixed, 30)) * _FIRST
    mixed = (mixed ^ _shift(mixed, 27)) * _SECOND
    return mixed ^ _shift(mixed, 31)


def device_uniform(origins: Tensor, index: Tensor) -> Tensor:
    """Uniform draws in (0, 1), float64."""
    return (_shift(device_bits(origins, index), 12).double() + 0.5) * 2.0**-52


def device_permutations(origins: Tensor, index: Tensor, size: Tensor, longest: int) -> Tensor:
    """Random orders of 0..size-1, one a row, (k, longest); what stands behind `size` is padding."""
    place = torch.arange(longest, device=origins.device)
    keys = device_bits(origins[:, None], index[:, None] * 2**32 + place) ^ _SIGN
    keys = keys.masked_fill(place >= size[:, None], 2**63 - 1)
    return torch.sort(keys, dim=1, stable=True).indices


def _shift(bits: Tensor, places: int) -> Tensor:
    """Shift right, filling with zeros."""
    return (bits >> places) & ((1 << (64 - places)) - 1)
