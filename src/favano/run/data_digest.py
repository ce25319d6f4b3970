"""A digest of data: types, shapes and values of arrays."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from favano.types import Ints

Array: TypeAlias = npt.NDArray[np.generic]

_PART = 1 << 24  # bytes that are copied at once, if need be


def data_digest(arrays: Iterable[Tensor | Array], owners: Iterable[Mapping[str, Ints]]) -> str:
    """A digest of arrays, and of whose the samples are, by column."""
    digest = hashlib.sha256()
    for array in arrays:
        _add(digest, array)
    for some in owners:
        digest.update(f"{sorted(some)}\n".encode())
        for _, who in sorted(some.items()):
            _add(digest, who)
    return digest.hexdigest()


def _add(digest: hashlib._Hash, array: Tensor | Array) -> None:
    """Add an array in parts, since it may be larger than memory."""
    kind = str(array.dtype).removeprefix("torch.")
    digest.update(f"{kind} {tuple(array.shape)}\n".encode())
    rows = max(1, _PART * len(array) // max(1, array.nbytes))
    for start in range(0, len(array), rows):
        part = array[start : start + rows]
        if isinstance(part, Tensor):
            part = part.detach().cpu().contiguous().view(torch.uint8).numpy()
        digest.update(np.ascontiguousarray(part).data)
