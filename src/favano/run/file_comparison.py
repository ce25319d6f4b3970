"""Everything that the files of a result state, beside what a repeated run would write."""

from __future__ import annotations

import csv
import json
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from io import StringIO
from pathlib import PurePath
from typing import Final, TypeAlias

import torch
from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor

from favano.records.folder import ABOUT, HISTORY, MODEL, PARTICIPATION, SPEC, SUMMARY
from favano.run.row_comparison import note_apart

Files: TypeAlias = Mapping[str, str | bytes]  # by name
Place: TypeAlias = tuple[str | int, ...]  # of a value in a file: names of tables, numbers in lists
Leaves: TypeAlias = dict[Place, object]

# What no repetition can prove: who made a result, when, and on what.
NOT_COVERED: Final[Mapping[str, tuple[str, ...]]] = {
    SUMMARY: ("favano", "command", "torch", "kernels", "processor", "runs.wall_seconds"),
    SPEC: ("run.kernels", "run.engine"),
    MODEL: (f"{ABOUT}.version",),
}  # fmt: skip
_DIGESTS = ("model_digest", "digest")
# Tables that files of earlier versions do not have; there is nothing in them to compare with.
_LATER: Final[Mapping[str, tuple[str, ...]]] = {PARTICIPATION: ("jobs",)}


@dataclass
class FileComparison:
    """What differs between the files of a result and those of its repeated run."""

    exact: bool  # whether all numbers must be equal to the bit
    differences: list[str] = field(default_factory=list)
    apart: dict[str, tuple[float, str]] = field(default_factory=dict)  # the most, and where

    def compare(self, stated: Files, made: Files) -> None:
        """Compare all files, value by value."""
        for name in dict.fromkeys([*made, *stated]):
            if name not in stated or name not in made:
                why = "is missing" if name in made else "is not a file of this run"
                self.differences.append(f"{name} {why}")
                continue
            try:
                there = leaves(name, stated[name])
            except (ValueError, RecursionError, SafetensorError) as error:
                self.differences.append(f"{name} is damaged: {error}")
                continue
            self._compare_leaves(name, there, leaves(name, made[name]))

    def _compare_leaves(self, name: str, stated: Leaves, made: Leaves) -> None:
        parts = {place[:1] for place in stated}
        later = {(part,) for part in _LATER.get(name, ())} - parts
        for place in dict.fromkeys([*made, *stated]):
            if place[:1] in later:
                continue
            column = ".".join(key for key in place if isinstance(key, str))
            if column in NOT_COVERED.get(name, ()):
                continue
            words = f"{name}: {'.'.join(map(str, place))}"
            if place not in stated:
                self.differences.append(f"{words} is missing")
                continue
            if place not in made:
                self.differences.append(f"{words} is not in the run made here")
                continue
            value, other = stated[place], made[place]
            noise = not self.exact and self._is_noise(name, column, words, value, other)
            if not _equal(value, other) and not noise:
                both = f"{_shown(value)}, but {_shown(other)} in the run made here"
                self.differences.append(f"{words} is {both}")

    def _is_noise(self, name: str, column: str, words: str, value: object, other: object) -> bool:
        """Whether values may differ because of rounding; if so, how far they do is noted."""
        if _equal(value, other):
            return False
        if isinstance(value, Tensor) and isinstance(other, Tensor):
            if (value.shape, value.dtype) != (
                other.shape,
                other.dtype,
            ) or not value.is_floating_point():
                return False
            value, other = float((value - other).abs().max()), 0.0
        if name == HISTORY and column in _DIGESTS:
            return True
        if isinstance(value, str) and isinstance(other, str) and name.endswith(".csv"):
            value, other = _number(value), _number(other)
        note_apart(self.apart, f"{name}: {column}", words, value, other)
        return isinstance(value, float) and isinstance(other, float)


def leaves(name: str, content: str | bytes) -> Leaves:
    """All values in a file, by their place; what is there twice is a `ValueError`."""
    if isinstance(content, bytes):
        return dict(_walk(_tensors(content)))
    match PurePath(name).suffix:
        case ".toml":
            return dict(_walk(tomllib.loads(content)))
        case ".csv":
            return dict(_walk(_table(content)))
        case _:
            return dict(_walk(json.loads(content, object_pairs_hook=_once)))


def _walk(value: object, place: Place = ()) -> Iterator[tuple[Place, object]]:
    pairs: list[tuple[str | int, object]] | None = None
    if isinstance(value, dict):
        pairs = [(str(key), entry) for key, entry in value.items()]
    elif isinstance(value, list):
        pairs = list(enumerate(value))
    if not pairs:  # also an empty table or list
        yield place, value
        return
    for key, entry in pairs:
        yield from _walk(entry, (*place, key))


def _table(text: str) -> list[object]:
    """The lines of a CSV file: its heading, then a table of cells for each line."""
    heading, *lines = csv.reader(StringIO(text))
    return [heading, *(_once(zip(heading, line, strict=True)) for line in lines)]


def _tensors(content: bytes) -> dict[str, object]:
    """The tensors of a model file, and what it says of them."""
    tensors, length = load(content), int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length], object_pairs_hook=_once)
    about = dict(header.get("__metadata__", {}))
    if ABOUT in about:
        about[ABOUT] = json.loads(about[ABOUT], object_pairs_hook=_once)
    return {**about, "tensors": tensors}


def _once(pairs: object) -> dict[str, object]:
    """A table from pairs; a name that is there twice is refused."""
    table: dict[str, object] = {}
    for name, value in pairs:  # type: ignore[attr-defined]
        if name in table:
            raise ValueError(f"{name} is there twice")
        table[name] = value
    return table


def _equal(value: object, other: object) -> bool:
    if isinstance(value, Tensor) and isinstance(other, Tensor):
        alike = value.dtype == other.dtype and value.shape == other.shape
        return alike and torch.equal(_bytes(value), _bytes(other))
    return repr(value) == repr(other)  # 1, 1.0 and true are not the same


def _bytes(tensor: Tensor) -> Tensor:
    return tensor.reshape(-1).view(torch.uint8)


def _number(text: str) -> float | str:
    """A cell that is a number and not a count."""
    try:
        return text if text.lstrip("-").isdecimal() else float(text)
    except ValueError:
        return text


def _shown(value: object) -> str:
    if isinstance(value, Tensor):
        return f"{value.dtype} {tuple(value.shape)} of other numbers"
    text = json.dumps(value) if not isinstance(value, str) else value
    return text if len(text) <= 60 else f"{text[:60]}..."
