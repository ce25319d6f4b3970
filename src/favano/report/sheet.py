"""A table of words, for the screen and for Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True)
class Sheet:
    """Title, headings, rows of cells, and a note below."""

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""


def tables(sheets: Sequence[Sheet]) -> list[dict[str, object]]:
    """Sheets as JSON documents."""
    return [
        {"title": sheet.title, "headings": sheet.headings, "rows": sheet.rows} for sheet in sheets
    ]


def markdown(sheet: Sheet) -> str:
    """The sheet as a Markdown table, without its title.

    >>> print(markdown(Sheet("", ["a", "b"], [["1", "2"]], "so it is")))
    | a | b |
    |---|---|
    | 1 | 2 |
    <BLANKLINE>
    so it is
    """
    lines = [_line(sheet.headings), "|---" * len(sheet.headings) + "|"]
    lines += [_line(row) for row in sheet.rows]
    return "\n".join([*lines, "", sheet.note] if sheet.note else lines)


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def screen_table(sheet: Sheet) -> Table:
    """A sheet as a table for the terminal, without the stars and backticks of Markdown."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    for index, heading in enumerate(sheet.headings):
        words = index == 0 or heading == "method"
        title = Text(_plain(heading))
        table.add_column(title, justify="left" if words else "right", overflow="fold")
    for row in sheet.rows:
        table.add_row(*(Text(_plain(cell)) for cell in row))
    return table


def _plain(text: str) -> str:
    return text.replace("**", "").replace("`", "")
