"""A folder to work in, and commands as a user gives them."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple
from unittest.mock import patch

from favano.cli import main

# A terminal of 80 columns without colours.
_ENVIRONMENT: Final = {"COLUMNS": "80", "LINES": "24", "NO_COLOR": "1"}


class Output(NamedTuple):
    """What a command ended with and printed."""

    code: int
    out: str
    err: str


@contextmanager
def folder(files: Mapping[str, str] | None = None) -> Iterator[Path]:
    """A folder that is the current one while it lasts, with these files."""
    with TemporaryDirectory() as name, chdir(name), patch.dict(os.environ, _ENVIRONMENT):
        for path, text in (files or {}).items():
            Path(path).write_text(text, encoding="utf-8")
        yield Path(name)


def command(line: str) -> Output:
    """A command, called inside of this process."""
    out, err, handler = StringIO(), StringIO(), signal.getsignal(signal.SIGTERM)
    code: object = 0
    words = patch.object(sys, "argv", shlex.split(line))
    program = patch.object(sys.modules["__main__"], "__package__", None)  # else help names it
    try:
        with words, program, redirect_stdout(out), redirect_stderr(err):
            main()
    except SystemExit as ending:
        code = ending.code or 0
    finally:
        signal.signal(signal.SIGTERM, handler)
    assert isinstance(code, int)
    return Output(code, out.getvalue(), err.getvalue())
