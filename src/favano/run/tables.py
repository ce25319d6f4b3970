"""Data frames, of any library: nothing here imports one."""

from __future__ import annotations

from collections.abc import Iterable


def is_frame(given: object) -> bool:
    """Whether something is a data frame: columns by name, each with `to_numpy`."""
    return hasattr(given, "columns") and hasattr(given, "to_numpy")


def missing_as_nobody(cells: Iterable[object]) -> list[object]:
    """Names of clients, -1 where one is missing; whole numbers that a gap made floats are whole."""
    cells = [*cells]
    gaps = any(map(_is_missing, cells))
    return [-1 if _is_missing(cell) else _whole(cell) if gaps else cell for cell in cells]


def _is_missing(cell: object) -> bool:
    absent = cell is None or type(cell).__name__ in ("NAType", "NaTType")
    return absent or (isinstance(cell, float) and cell != cell)


def _whole(cell: object) -> object:
    return int(cell) if isinstance(cell, float) and cell.is_integer() else cell
