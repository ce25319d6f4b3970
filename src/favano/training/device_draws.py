"""The draws of `favano.rng` on the device of a tensor: the same bits, without the host."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from favano.rng import EPOCH, GOLDEN, Bits, mix_tensor, shifted, signed

_GOLDEN = signed(GOLDEN)
_SIGN = -(2**63)
_AT_ONCE = 32 << 10  # bytes that the driver copies without waiting


def to_device(values: npt.NDArray[np.generic], like: Tensor) -> Tensor:
    """Copy numbers to the device of a tensor, without waiting for the work it has queued.

    The driver makes small copies at once. Before a large one it waits for all earlier work of the
    device, unless the numbers lie in pinned memory.
    """
    given = torch.from_numpy(values)
    if like.is_cuda and values.nbytes > _AT_ONCE:
        given = given.pin_memory()
    return given.to(like.device, non_blocking=True)


def on_device(origins: Bits, device: torch.device) -> Tensor:
    """Origins of sequences (`favano.rng.origin`) as the int64 that holds the same bits."""
    return torch.from_numpy(origins.astype(np.int64)).to(device)


def device_bits(origins: Tensor, index: Tensor) -> Tensor:
    """64 random bits for each (origin, index), as int64."""
    return mix_tensor(origins + (index + 1) * _GOLDEN)


def device_uniform(origins: Tensor, index: Tensor) -> Tensor:
    """Uniform draws in (0, 1), float64."""
    return (shifted(device_bits(origins, index), 12).double() + 0.5) * 2.0**-52


def device_permutations(origins: Tensor, index: Tensor, size: Tensor, longest: int) -> Tensor:
    """Random orders of 0..size-1, one per row, (k, longest); entries after `size` are padding."""
    place = torch.arange(longest, device=origins.device)
    keys = device_bits(origins[:, None], index[:, None] * EPOCH + place) ^ _SIGN
    keys = keys.masked_fill(place >= size[:, None], 2**63 - 1)
    return torch.sort(keys, dim=1, stable=True).indices
