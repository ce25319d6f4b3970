"""Notices to the user: warnings of the logger `favano`, which anybody may silence or redirect."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

_log = logging.getLogger("favano")


class _StandardError(logging.Handler):
    """Writes to standard error as it is at that time."""

    def emit(self, record: logging.LogRecord) -> None:
        sys.stderr.write(f"favano: {record.getMessage()}\n")


def notice(sentence: str) -> None:
    """Tell the user something; on standard error, unless the program has set up logging."""
    if not _log.hasHandlers():
        to_standard_error()
    _log.warning("%s", sentence)


def to_standard_error() -> None:
    """Show notices on standard error whatever else is set up, as a command does."""
    if not any(isinstance(handler, _StandardError) for handler in _log.handlers):
        _log.addHandler(_StandardError())


def console(*, stderr: bool = True) -> Console:
    """A terminal; paths, titles and labels may hold brackets and colons, which are no markup."""
    from rich.console import Console

    return Console(stderr=stderr, highlight=False, markup=False, emoji=False)
