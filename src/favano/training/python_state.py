"""What a network and a loss keep in Python, beside parameters and buffers.

Jobs are trained in any order, by any number of processes. What changes from call to call outside
the flat model, as a counter or a generator of random numbers, would make a run depend on them.
"""

from __future__ import annotations

import random
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import count
from types import FunctionType, MethodType
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from favano.code_digest import PLAIN, globals_of, is_users

_OF_MODULES = frozenset(vars(nn.Module()))
_DEEPEST = 8


class Generator(NamedTuple):
    """The state of a generator of random numbers."""

    state: object


def python_state(owner: object) -> dict[str, object]:
    """The values that a network or a loss can reach and may change, by name, copied."""
    return dict(_of(owner, "", set(), 0))


def first_change(before: Mapping[str, object], now: Mapping[str, object]) -> str | None:
    """The name of a value that has changed; None if all are the same."""
    changed = (name for name in now if not _same(before.get(name), now[name]))
    return next(changed, None)


def global_generators() -> tuple[object, ...]:
    """The states of the generators that PyTorch, Python and NumPy share with everybody.

    Nothing beside other threads: any of them may draw, as the heartbeats of a federation do.
    """
    if threading.active_count() > 1:
        return ()
    state = np.random.get_state(legacy=True)  # noqa: NPY002 (to see whether a network uses it)
    numbers = (part.tobytes() if isinstance(part, np.ndarray) else part for part in state)
    return torch.get_rng_state().numpy().tobytes(), random.getstate(), *numbers


def drawn_since(before: tuple[object, ...]) -> bool:
    """Whether the global generators have moved since, and nobody else can have moved them."""
    now = global_generators()
    return bool(before and now) and before != now


def _of(owner: object, name: str, seen: set[int], depth: int) -> Iterator[tuple[str, object]]:
    """What an object, a function or a network keeps."""
    if id(owner) in seen or depth > _DEEPEST:
        return
    seen.add(id(owner))
    for key, value in _parts(owner):
        place = ".".join(part for part in (name, key) if part)
        if _keeps(value):
            yield from _of(value, place, seen, depth + 1)
        else:
            yield place, _copied(value, seen, depth + 1)


def _keeps(value: object) -> bool:
    """Whether something is looked into, and is no value itself."""
    users = isinstance(value, FunctionType) and is_users(value)
    return users or isinstance(value, nn.Module | MethodType | partial)


def _parts(owner: object) -> Iterator[tuple[str, object]]:
    if isinstance(owner, FunctionType):
        for key, cell in zip(owner.__code__.co_freevars, owner.__closure__ or (), strict=True):
            try:
                yield key, cell.cell_contents
            except ValueError:  # not filled yet
                continue
        for key in sorted(globals_of(owner.__code__) & owner.__globals__.keys()):
            yield key, owner.__globals__[key]
    elif isinstance(owner, MethodType):
        yield "", owner.__func__
        yield from _parts(owner.__self__)
    elif isinstance(owner, partial):
        yield "", owner.func
        yield from ((str(number), argument) for number, argument in enumerate(owner.args))
        yield from owner.keywords.items()
    else:
        forward = getattr(type(owner), "forward" if isinstance(owner, nn.Module) else "__call__", 0)
        if isinstance(forward, FunctionType) and is_users(forward):
            yield "", forward
        values = getattr(owner, "__dict__", {})
        yield from ((key, value) for key, value in values.items() if key not in _OF_MODULES)
        yield from values.get("_modules", {}).items()


def _copied(value: Any, seen: set[int], depth: int) -> object:
    """A value as it is now; None for things that are not looked into."""
    if isinstance(value, PLAIN):
        return value
    if isinstance(value, Tensor) and not isinstance(value, nn.Parameter):
        return value.detach().clone()
    if isinstance(value, np.ndarray):
        return value.copy()
    if (state := _GENERATORS.get(type(value))) is not None:
        return Generator(state(value))
    if depth > _DEEPEST or id(value) in seen:
        return None
    if isinstance(value, list | tuple | deque | set | frozenset):
        return [_copied(item, seen, depth + 1) for item in value]
    if isinstance(value, dict):
        return [[repr(key), _copied(entry, seen, depth + 1)] for key, entry in value.items()]
    if isinstance(value, count):
        return repr(value)
    if is_users(type(value)) and not isinstance(value, type):
        seen.add(id(value))
        return _copied(getattr(value, "__dict__", {}), seen, depth + 1)
    return None


_GENERATORS: Mapping[type, Callable[[Any], object]] = {
    random.Random: lambda generator: generator.getstate(),
    np.random.Generator: lambda generator: repr(generator.bit_generator.state),
    np.random.RandomState: lambda generator: repr(generator.get_state(legacy=False)),
    torch.Generator: lambda generator: generator.get_state(),
}


def _same(value: object, other: object) -> bool:
    if isinstance(value, Tensor) and isinstance(other, Tensor):
        alike = value.shape == other.shape and value.dtype == other.dtype
        return alike and torch.allclose(value, other, rtol=1e-3, atol=1e-6, equal_nan=True)
    if isinstance(value, list) and isinstance(other, list):
        return len(value) == len(other) and all(map(_same, value, other))
    if isinstance(value, Generator) and isinstance(other, Generator):
        return _same(value.state, other.state)
    if isinstance(value, np.ndarray) and isinstance(other, np.ndarray):
        return np.array_equal(value, other)
    return type(value) is type(other) and repr(value) == repr(other)
