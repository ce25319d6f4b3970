"""Cells of a notebook: code whose text Python finds, though it is in no file."""

from __future__ import annotations

import linecache
from itertools import count

_NUMBERS = count()


def run_cell(text: str, space: dict[str, object], *, optimise: int = 0) -> None:
    """Execute a cell, and keep its text as notebooks do."""
    name = f"<cell {next(_NUMBERS)}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    exec(compile(text, name, "exec", optimize=optimise), space)
