"""Shakespeare by role, as windows of 80 characters and the next one (LEAF, Caldas et al. 2018).

The last fifth of each role's text is for testing. Roles with too little text for a window of
either kind are left out.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from favano.data import cache
from favano.data.dataset import Dataset, Rows
from favano.data.origins import Origin
from favano.data.tables import codes_of, tables_of
from favano.errors import require
from favano.types import Ints

if TYPE_CHECKING:
    import pyarrow

ALPHABET: Final = (  # LEAF's 80 characters
    "\n !\"&'(),-.0123456789:;>?ABCDEFGHIJKLMNOPQRSTUVWXYZ[]abcdefghijklmnopqrstuvwxyz}"
)
WINDOW: Final = 80
_TRAIN = 0.8  # share of each role's text
_OWNER = "character_id"

Codes = npt.NDArray[np.uint8]


def encode(origin: Origin, folder: Path, *, name: str) -> None:
    """Fill `folder` with the arrays of a text: speeches (`text`), or LEAF's windows (`x`, `y`)."""
    with tables_of(origin, folder, name) as tables:
        table = tables["train"]
        columns = set(table.column_names)
        rule = f"columns {', '.join(table.column_names)}: need {_OWNER}, and text or x and y"
        known = _OWNER in columns and ("text" in columns or {"x", "y"} <= columns)
        require(known, "dataset", name, rule)
        text, roles = _speeches(table) if "text" in columns else _windows(table, name)
        np.save(folder / "text.npy", text)
        np.save(folder / "roles.npy", roles)
        del tables, table


def _speeches(table: pyarrow.Table) -> tuple[Codes, Ints]:
    """All speeches of one role after the other, and the role of each character."""
    roles, spoken = codes_of(table[_OWNER]), table["text"].to_pylist()
    order = np.argsort(roles, kind="stable")
    lines = [spoken[place] + "\n" for place in order]
    return coded("".join(lines)), np.repeat(roles[order], [len(line) for line in lines])


def _windows(table: pyarrow.Table, name: str) -> tuple[Codes, Ints]:
    """Windows with their next characters, (N, 81), and their roles."""
    both = [x + y for x, y in zip(table["x"].to_pylist(), table["y"].to_pylist(), strict=True)]
    odd = next((row for row, window in enumerate(both) if len(window) != WINDOW + 1), None)
    require(odd is None, "dataset", name, f"row {odd}: need x of {WINDOW} characters and y of one")
    return coded("".join(both)).reshape(-1, WINDOW + 1), codes_of(table[_OWNER])


def coded(text: str) -> Codes:
    """The number of each character in the alphabet; characters outside it become blanks.

    >>> coded("To be?").tolist()
    [44, 67, 1, 54, 57, 24]
    """
    numbers = np.full(256, ALPHABET.index(" "), dtype=np.uint8)
    for number, letter in enumerate(ALPHABET):
        numbers[ord(letter)] = number
    return numbers[np.frombuffer(text.encode("latin-1", "replace"), dtype=np.uint8)]


def read(folder: Path) -> tuple[Rows, Rows]:
    """Training and test windows of a cache folder.

    All windows of the training text are used. Those of the test text do not overlap, since a
    model is evaluated on all of them many times.
    """
    paths = [folder / f"{name}.npy" for name in cache.TEXT]
    text, roles = cache.read_array(paths[0], "u", (1, 2)), cache.read_array(paths[1])
    least = WINDOW if text.ndim == 1 else 0
    fits = len(text) == len(roles) > least and text.shape[1:] in ((), (WINDOW + 1,))
    rule = f"holds {text.shape} characters of {roles.shape} roles: need one role for each"
    require(fits, "dataset", paths[0], rule)
    known = int(text.max()) < len(ALPHABET)
    require(known, "dataset", paths[0], f"holds codes beyond the {len(ALPHABET)} characters")
    if text.ndim == 1:
        windows = np.lib.stride_tricks.sliding_window_view(text, WINDOW + 1)
        owner = np.where(roles[:-WINDOW] == roles[WINDOW:], roles[:-WINDOW], -1)
    else:
        windows, owner = text, np.asarray(roles)
    train, test = (_rows(windows, owner, chosen) for chosen in _split(owner))
    return train, test


def _split(owner: Ints) -> tuple[Ints, Ints]:
    """Training and test windows: role by role, first and last; none has text of both."""
    order, rank, size = _ranked(owner)
    cut = (_TRAIN * (size + WINDOW)).astype(np.int64)  # of the role's text
    enough = (cut > WINDOW) & (size > cut)
    train = enough & (rank < cut - WINDOW)
    test = enough & (rank >= cut) & ((rank - cut) % WINDOW == 0)
    return np.sort(order[train]), np.sort(order[test])


def hold_out(dataset: Dataset, count: int) -> Dataset:
    """Test on about `count` windows at the ends of the roles' training texts, in proportion.

    As in the test set, they do not overlap, and share no text with those of training.
    """
    owner = dataset.train.owners[_OWNER]
    most = len(owner) // WINDOW
    require(count <= most, "holdout", count, f"need 1..{most}, windows that do not overlap")
    order, rank, size = _ranked(owner)
    held = np.minimum(count * size // len(owner), (size - 1) // WINDOW - 1).clip(0)
    left = size - 1 - rank  # windows that follow in the role
    test = (left % WINDOW == 0) & (left // WINDOW < held)
    train = (held == 0) | (left > held * WINDOW)
    kept, tried = (dataset.train.take(np.sort(order[chosen])) for chosen in (train, test))
    return replace(dataset, train=kept, test=tried)


def _ranked(owner: Ints) -> tuple[Ints, Ints, Ints]:
    """Windows by role; the number of each within its role, and how many the role has."""
    order = np.argsort(owner, kind="stable")
    order = order[owner[order] >= 0]
    _, first, size = np.unique(owner[order], return_index=True, return_counts=True)
    return order, np.arange(len(order)) - np.repeat(first, size), np.repeat(size, size)


def _rows(windows: Codes, owner: Ints, chosen: Ints) -> Rows:
    picked = windows[chosen]
    labels = picked[:, WINDOW].astype(np.int64)
    return Rows(picked[:, :WINDOW], labels, {_OWNER: owner[chosen]})
