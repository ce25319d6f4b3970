"""Snapshots as plain data: None, numbers, texts, arrays, and lists of them.

Every container is a pair of its kind and its content. Named tuples are restored by their names, so
only kinds that the reader lists can be read; nothing that is read can run code.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TypeAlias, cast

import numpy as np
import torch
from torch import Tensor

from favano.aggregation.snapshot import NoSnapshot
from favano.records.checkpoint import Tree
from favano.types import Array

Kinds: TypeAlias = Collection[type[tuple[object, ...]]]  # of named tuples


def named_kinds(value: object) -> set[type[tuple[object, ...]]]:
    """The kinds of all named tuples in a value."""
    kinds = {type(value)} if isinstance(value, tuple) and hasattr(value, "_fields") else set()
    return kinds.union(*map(named_kinds, _inner(value)))


def pack(value: object, kinds: Kinds) -> Tree:
    """A value as plain data; refused if it holds anything else. Arrays are not copied."""
    match value:
        case None | bool() | str():
            return value
        case Tensor():
            return ["tensor", _array(value)]
        case np.generic():
            return ["scalar", np.asarray(value)]
        case np.ndarray() if value.dtype != object:
            return value
        case int() | float():
            return value
        case Mapping():
            return ["map", [[pack(key, kinds), pack(entry, kinds)] for key, entry in value.items()]]
        case list() | tuple() if type(value) in (list, tuple, *kinds):
            return [_name(type(value)), [pack(item, kinds) for item in value]]
    raise NoSnapshot(f"a {type(value).__name__} in the state of its method cannot be saved")


def unpack(packed: Tree, kinds: Kinds, like: Tensor) -> object:
    """The inverse of `pack`, with tensors on the device of another one."""
    if not isinstance(packed, list):
        return packed
    name, content = packed
    if name == "tensor":
        return torch.from_numpy(content).to(like.device)
    if name == "scalar":
        return cast(Array, content)[()]
    assert isinstance(content, list)
    if name == "map":
        pairs = cast(list[list[Tree]], content)
        return {unpack(key, kinds, like): unpack(value, kinds, like) for key, value in pairs}
    values = [unpack(item, kinds, like) for item in content]
    if name in ("list", "tuple"):
        return values if name == "list" else tuple(values)
    kind: Callable[..., object] = {_name(known): known for known in kinds}[str(name)]
    return kind(*values)


def _name(kind: type) -> str:
    """A method and a transform may both have a `State`."""
    plain = kind in (list, tuple)
    return kind.__name__ if plain else f"{kind.__module__}.{kind.__qualname__}"


def _array(tensor: Tensor) -> Array:
    try:
        return cast(Array, tensor.detach().cpu().numpy())
    except TypeError:
        raise NoSnapshot(f"numbers of type {tensor.dtype} cannot be saved") from None


def _inner(value: object) -> Iterator[object]:
    if isinstance(value, Mapping):
        yield from value.values()
    elif isinstance(value, list | tuple):
        yield from value
