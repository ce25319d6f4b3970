"""CSV files of named tuples: a header with the names of the fields, then one line per tuple.

A cell is read by the type of its field: `int`, `float`, `str`, one of a few words (`Literal`), or
any of these with None, which is an empty cell.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from io import StringIO
from types import NoneType
from typing import Literal, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

Line = TypeVar("Line", bound=NamedTuple)
_LIMIT = 1 << 63


def to_csv(kind: type[Line], lines: Iterable[Line], *, digits: int | None = None) -> str:
    """Tuples as CSV; floats to `digits` significant digits, or as many as reading back needs.

    >>> class Reading(NamedTuple):
    ...     seed: int
    ...     loss: float | None = None
    >>> to_csv(Reading, [Reading(0, 0.125), Reading(1)])
    'seed,loss\\n0,0.125\\n1,\\n'
    """
    if digits is None:
        return write_csv(kind._fields, lines)
    return write_csv(kind._fields, ([_rounded(cell, digits) for cell in line] for line in lines))


def write_csv(header: Sequence[str], lines: Iterable[Iterable[object]]) -> str:
    """Lines of cells as CSV."""
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(lines)
    return text.getvalue()


def from_csv(
    kind: type[Line], text: str, *, others: str | None = None, later: Collection[str] = ()
) -> list[Line]:
    """The inverse of `to_csv`; columns in any order. A `ValueError` says what is wrong.

    Columns that are not fields are ignored, or read as numbers into the mapping `others`. Files of
    earlier versions lack the columns of `later`, whose fields have a default.
    """
    types = get_type_hints(kind)
    parsers = {name: _parser(name, types[name]) for name in kind._fields if name != others}
    lines = []
    for row in _rows(text):
        if None in row.values():
            raise ValueError("a row is cut short")
        if None in row:
            raise ValueError("a row has more cells than there are columns")
        if missing := [name for name in parsers if name not in (*row, *later)]:
            raise ValueError(f"no column {missing[0]!r}")
        cells: dict[str, object] = {
            name: parse(row[name]) for name, parse in parsers.items() if name in row
        }
        if others is not None:
            cells[others] = {name: float(row[name]) for name in row if name not in parsers}
        cells = {**kind._field_defaults, **cells}
        lines.append(kind._make(cells[name] for name in kind._fields))
    return lines


def _rows(text: str) -> Iterator[dict[str | None, str]]:
    """One by one: short rows of a stranger's file would fill the memory before they are refused."""
    try:
        yield from csv.DictReader(StringIO(text))
    except csv.Error as error:
        raise ValueError(str(error)) from error


def _rounded(cell: object, digits: int) -> object:
    return f"{cell:.{digits}g}" if isinstance(cell, float) else cell


def _parser(name: str, kind: object) -> Callable[[str], object]:
    """The function that reads a cell of this type."""
    options = get_args(kind)
    if get_origin(kind) is Literal:

        def choose(text: str) -> str:
            if text not in options:
                raise ValueError(f"{name} {text}: need one of {', '.join(options)}")
            return text

        return choose
    if NoneType in options:
        parse = _parser(name, next(option for option in options if option is not NoneType))
        return lambda text: parse(text) if text else None
    assert kind in (int, float, str), f"{name}: no parser for cells of type {kind}"
    return _whole if kind is int else kind


def _whole(text: str) -> int:
    number = int(text)
    if abs(number) >= _LIMIT:
        raise ValueError(f"{text[:40]} is too large")
    return number
