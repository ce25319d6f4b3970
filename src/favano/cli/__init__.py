"""The command line, `favano`: one file per command, without logic."""

from __future__ import annotations

import atexit
import errno
import os
import signal
import sys
import threading
from itertools import pairwise


def program() -> None:
    """`main` as a program of its own.

    At the end Python would free all that PyTorch has loaded, piece by piece: a tenth of the time of
    a short command. Unless threads are left, the process ends at once instead.
    """
    code = 0
    try:
        main()
    except SystemExit as end:
        if not isinstance(end.code, int | None):
            raise
        code = end.code or 0
    if threading.active_count() > 1:
        sys.exit(code)
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def main() -> None:
    """Run the command line. Bad input ends with one sentence and exit code 2."""
    try:
        from favano.cli.commands import make_app
        from favano.cli.shell import show_traceback
        from favano.errors import BadInput, ClusterLost, Diverged, WriteFailed, require
        from favano.notices import to_standard_error
    except KeyboardInterrupt:
        sys.exit(130)

    to_standard_error()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C, so that results are kept
    try:
        for before, word in pairwise(sys.argv):
            flag = before if not word else word.removesuffix("=")
            empty = not word or (word.startswith("--") and word.endswith("="))
            require(not empty, flag.lstrip("-"), "", "is empty; is a shell variable not set?")
        try:
            make_app(sys.argv[1:])()
        finally:
            sys.stdout.flush()  # if it cannot be written, this is said below
    except BadInput as error:
        show_traceback(error)
        sys.exit(_say(error, 2))
    except MemoryError as error:
        sys.exit(_say(f"the run needs more memory than there is: {error}", 2))
    except OSError as error:
        if error.errno == errno.ENOSPC and error.filename is None:
            _drop_output()
            sys.exit(_say(f"the output cannot be written: {error.strerror}", 1))
        if error.filename is None:
            raise
        sys.exit(_say(BadInput("file", error.filename, error.strerror or "cannot be used"), 2))
    except (ClusterLost, Diverged, WriteFailed) as error:
        sys.exit(_say(error, 1))
    except KeyboardInterrupt:
        sys.exit(_say("interrupted before there were any results", 130))


def _say(message: object, code: int) -> int:
    sys.stderr.write(f"favano: {message}\n")
    return code


def _drop_output() -> None:
    """Let Python end without another try to write what is left."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
