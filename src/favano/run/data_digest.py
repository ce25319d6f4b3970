"""A digest of data: types, shapes and values of arrays."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

import numpy as np
import torch
from torch import Tensor

from favano.types import Array, Ints

_PART = 1 << 24  # bytes that are copied at once, if need be
_MOST = 64  # parts of an array: 1 GiB takes less than a second, an array may be larger than memory


def data_digest(arrays: Iterable[Tensor | Array], owners: Iterable[Mapping[str, Ints]]) -> str:
    """A digest of arrays, and of whose the samples are, by column.

    Of an array of more than 1 GiB it takes parts, evenly spread from the first row to the last.
    """
    digest = hashlib.sha256()
    for array in arrays:
        _add(digest, array)
    for some in owners:
        digest.update(f"{sorted(some)}\n".encode())
        for _, who in sorted(some.items()):
            _add(digest, who)
    return digest.hexdigest()


def parts_of(array: Tensor | Array) -> list[slice]:
    """The rows of an array in parts; of a very large one only some, evenly spread."""
    rows = max(1, _PART * len(array) // max(1, array.nbytes))
    starts = list(range(0, len(array), rows))
    if len(starts) > _MOST:
        starts = [(len(array) - rows) * part // (_MOST - 1) for part in range(_MOST)]
    return [slice(start, start + rows) for start in starts]


def _add(digest: hashlib._Hash, array: Tensor | Array) -> None:
    kind = str(array.dtype).removeprefix("torch.")
    digest.update(f"{kind} {tuple(array.shape)}\n".encode())
    for place in parts_of(array):
        part = array[place]
        digest.update(_bytes(part) if isinstance(part, Tensor) else np.ascontiguousarray(part).data)


def _bytes(part: Tensor) -> memoryview:
    """The numbers of a tensor one after the other, whatever its strides."""
    plain = part.detach().resolve_conj().resolve_neg().cpu()
    return plain.clone(memory_format=torch.contiguous_format).view(torch.uint8).numpy().data
