"""Splits that the data say: a column, a file, or lists given from Python."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from favano.errors import BadInput, require
from favano.file_sizes import check_array, read_limited
from favano.rng import Stream, permutation
from favano.types import Ints

OWN: Final = "own"  # a data set, a network or a split that was given from Python
_KINDS = ("column", "file")
_HEADING = "client"


def is_natural(how: str) -> bool:
    """Whether a split takes the clients from the data."""
    return how == OWN or how.partition(":")[0] in _KINDS


def file_owners(how: str, count: int) -> dict[str, Ints]:
    """The clients of `count` training samples in a split `file:PATH`; nothing in other splits."""
    kind, _, path = how.partition(":")
    if kind != "file":
        return {}
    owners = read_owners(Path(path), how)
    rule = f"names {len(owners)} clients, need one for each of {count} training samples"
    require(len(owners) == count, "split", how, rule)
    return {how: owners}


def read_owners(path: Path, how: str) -> Ints:
    """Numbers for the clients that a file names, one per training sample.

    The file is an array (`.npy`), a text with a client per line, or a CSV file with a column
    `client`. Clients have numbers or names.
    """
    try:
        require(path.is_file(), "split", how, "no such file")
        if path.suffix == ".npy":
            with path.open("rb") as file:
                check_array(file, path.stat().st_size)
            values = np.load(path, allow_pickle=False)
        else:
            values = _lines(read_limited(path, "split"), how)
    except BadInput:
        raise
    except Exception as error:  # damaged arrays raise errors of many kinds
        why = "need .npy, or text with a client per line"
        if isinstance(error, OSError) and error.strerror:
            why = error.strerror
        raise BadInput("split", how, f"cannot be read: {why}") from error
    flat = values.ndim == 1 and values.dtype.kind in "iuU"
    require(flat, "split", how, f"holds {values.dtype} {values.shape}: need one client per sample")
    return numbered(values)


def _lines(text: str, how: str) -> npt.NDArray[np.generic]:
    """The clients of a text; whole numbers if all cells are, but for blank ones."""
    rows = [row for row in csv.reader(text.splitlines()) if row]
    require(bool(rows), "split", how, "is empty: need one client per line")
    place = 0
    if _HEADING in rows[0]:
        place = rows.pop(0).index(_HEADING)
    else:
        rule = f"has {len(rows[0])} columns: need one, or the heading {_HEADING}"
        require(len(rows[0]) == 1, "split", how, rule)
    short = next((line for line, row in enumerate(rows) if len(row) <= place), None)
    require(short is None, "split", how, f"row {short} has no client")
    names = [row[place].strip() for row in rows]
    try:
        return np.array([int(name) if name else -1 for name in names])
    except ValueError:
        return np.array(names)


def numbered(values: npt.NDArray[np.generic]) -> Ints:
    """Numbers 0, 1, ... for the sorted values; -1 for those that name no client.

    >>> numbered(np.array([30, 10, -1, -7, 30])).tolist()
    [2, 1, -1, 0, 2]
    >>> numbered(np.array(["b", "a", "-1", "", "b"])).tolist()
    [1, 0, -1, -1, 1]
    """
    if values.dtype.kind == "U":
        names, places = np.unique(values, return_inverse=True)
        held = np.array([is_client(str(name)) for name in names], bool)[places]
    else:
        held = np.not_equal(values, -1)
    numbers = np.full(len(values), -1, dtype=np.int64)
    numbers[held] = np.unique(values[held], return_inverse=True)[1]
    return numbers


def is_client(name: str) -> bool:
    """Whether a cell of a column or a file names a client: it is neither blank nor -1."""
    try:
        return float(name) != -1
    except ValueError:
        return bool(name.strip())


def owners_of(parts: Sequence[Ints], count: int) -> Ints:
    """The client of each sample, from the samples of each client."""
    owners = np.full(count, -1, dtype=np.int64)
    for client, part in enumerate(parts):
        rule = f"client {client} has no samples: need at least one each"
        require(len(part) > 0, "split", OWN, rule)
        inside = part.min() >= 0 and part.max() < count
        require(bool(inside), "split", OWN, f"client {client} has samples outside 0..{count - 1}")
        taken = part[owners[part] >= 0]
        twice = len(np.unique(part)) < len(part) or len(taken) > 0
        rule = f"client {client} has samples that are in the lists twice: need disjoint lists"
        require(not twice, "split", OWN, rule)
        owners[part] = client
    return owners


def owned_parts(owners: Ints, clients: int, how: str, seed: int) -> list[Ints]:
    """Sorted positions of each client's samples; of more clients, `clients` random ones."""
    order = np.argsort(owners, kind="stable")
    order = order[np.searchsorted(owners[order], 0) :]  # without -1
    names, first = np.unique(owners[order], return_index=True)
    rule = f"need 1..{len(names)}, the clients of split={how}"
    require(clients <= len(names), "clients", clients, rule)
    parts = np.split(order, first[1:])
    chosen = np.sort(permutation(seed, Stream.SPLIT, len(names))[:clients])
    return [parts[client] for client in chosen]
