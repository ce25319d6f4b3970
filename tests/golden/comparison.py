"""Where two recorded values differ.

Words and whole numbers must be the same, other numbers within a tolerance, relative to the largest
of their list. Numbers inside of words must be the same where machine and libraries are those of the
record; elsewhere they are compared by the tolerance, each by itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import unified_diff
from itertools import zip_longest
from math import inf, isfinite
from typing import Final, NamedTuple, TypeAlias, TypeGuard

# What JSON holds, with dict and list; a text is the list of its lines.
Value: TypeAlias = "bool | int | float | str | Sequence[Value] | Mapping[str, Value] | None"
_NOTHING: Final = "nothing"
_NUMBER: Final = re.compile(r"(\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?)")
_SHOWN: Final = 160  # characters of a value
_LINES: Final = 12  # of a text


class Difference(NamedTuple):
    """A field whose value is another one."""

    field: str
    old: Value
    new: Value
    size: float  # of numbers: relative; infinity: they differ in more than numbers

    def __str__(self) -> str:
        before, now = _text(self.old), _text(self.new)
        if before and now:
            lines = list(unified_diff(before, now, n=0, lineterm=""))
            return "\n".join([f"{self.field}:", *lines[2 : 2 + _LINES]])
        size = f" (relative difference {self.size:.2g})" if isfinite(self.size) else ""
        return f"{self.field}: {str(self.old)[:_SHOWN]} -> {str(self.new)[:_SHOWN]}{size}"


def differences(
    old: Value, new: Value, tolerance: float, *, same_machine: bool = True, field: str = ""
) -> list[Difference]:
    """The fields whose values differ."""
    if isinstance(old, dict) and isinstance(new, dict):
        pairs = {key: (old.get(key, _NOTHING), new.get(key, _NOTHING)) for key in {**old, **new}}
    elif isinstance(old, list) and isinstance(new, list) and _is_nested([*old, *new]):
        both = enumerate(zip_longest(old, new, fillvalue=_NOTHING))
        pairs = {str(place): pair for place, pair in both}
    else:
        size = _apart(old, new, in_words=not same_machine)
        return [Difference(field, old, new, size)] if size > tolerance else []
    return [
        found
        for key, (before, now) in pairs.items()
        for found in differences(
            before, now, tolerance, same_machine=same_machine, field=f"{field}.{key}".lstrip(".")
        )
    ]


def _is_nested(values: list[Value]) -> bool:
    return any(isinstance(value, dict | list) for value in values)


def _apart(old: Value, new: Value, *, in_words: bool) -> float:
    """The largest relative difference."""
    if not isinstance(old, list) or not isinstance(new, list):
        return _of_pair(old, new, 0.0, in_words=in_words)
    if len(old) != len(new):
        return inf
    scale = max((abs(value) for value in [*old, *new] if _is_finite(value)), default=0.0)
    each = zip(old, new, strict=True)
    return max((_of_pair(*pair, scale, in_words=in_words) for pair in each), default=0.0)


def _of_pair(old: Value, new: Value, scale: float, *, in_words: bool) -> float:
    if repr(old) == repr(new):  # also NaN, which does not equal itself
        return 0.0
    if _is_finite(old) and _is_finite(new) and not (isinstance(old, int) and isinstance(new, int)):
        return abs(old - new) / max(abs(old), abs(new), scale) if old != new else 0.0
    if in_words and isinstance(old, str) and isinstance(new, str):
        before, now = _NUMBER.split(old), _NUMBER.split(new)
        if before[::2] == now[::2]:
            pairs = zip(_numbers(before), _numbers(now), strict=True)
            return max(_of_pair(*pair, 0.0, in_words=False) for pair in pairs)
    return inf


def _numbers(parts: list[str]) -> list[float]:
    return [float(word.replace(",", "")) for word in parts[1::2]]


def _is_finite(value: Value) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


def _text(value: Value) -> list[str]:
    """The lines of a text; none of anything else."""
    lines = value if isinstance(value, list) else []
    return [line for line in lines if isinstance(line, str)]
