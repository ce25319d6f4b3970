"""A folder at work: a note of the command in it, and a lock against a second process.

The lock ends with its process, however it ends.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final, Self

from favano.errors import BadInput, WriteFailed, require
from favano.records.folder import replace_together
from favano.records.resumption import RESUME, Resumption, resumption_to_json
from favano.results import check_writable

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

_LOCK: Final = ".lock"


@contextmanager
def folder_lock(folder: Path, name: str = "out") -> Iterator[None]:
    """Have a folder alone while the block lasts; refused while another process has it.

    The lock belongs to the process: forked workers do not have it. `name` is what the caller calls
    the folder.
    """
    with made_folder(folder, name):
        file = _locked(folder, name)
        try:
            yield
        finally:
            (folder / _LOCK).unlink(missing_ok=True)
            os.close(file)


@contextmanager
def made_folder(folder: Path, name: str = "out") -> Iterator[None]:
    """Make a folder, and remove it after the block if it is empty."""
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _not_written(folder, name, error) from error
    try:
        yield
    finally:
        for path in made:
            with suppress(OSError):  # it holds something by now
                path.rmdir()


def is_locked(folder: Path) -> bool:
    """Whether another process has a folder."""
    path = folder / _LOCK
    if fcntl is None or not path.is_file():
        return False
    with path.open("rb") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
    return False


def _locked(folder: Path, name: str) -> int:
    """The lock file of a folder, open and locked."""
    while True:
        try:
            file = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise _not_written(folder, name, error) from error
        try:
            if fcntl is not None:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            os.close(file)
            rule = "another process is at work in this folder; wait for it, or choose a new folder"
            raise BadInput(name, folder, rule) from None
        if os.fstat(file).st_nlink:
            return file
        os.close(file)  # whoever had it has removed it meanwhile


def _not_written(folder: Path, name: str, error: OSError) -> WriteFailed:
    return WriteFailed(f"{name}={folder}: could not be written: {error.strerror}")


class FolderLock:
    """For a `with` block. The note stays if the block fails, so that the command can go on.

    A comparison writes into folders of its folder, so nobody may be at work above or below either.
    """

    def __init__(self, out: Path, asked: Resumption, *, alone: bool = True) -> None:
        self._out, self._asked = out, asked
        self._owning = folder_lock(out) if alone else made_folder(out)
        self._before = b""  # the note of an earlier command, if there is one
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        """Write the note; refused while another process is at work in the folder."""
        out, note = self._out, self._out / RESUME
        check_writable(out)
        for other in (out.parent, *(path.parent for path in out.glob(f"*/{RESUME}"))):
            require(not is_locked(other), "out", out, f"another process is at work in {other}")
        with ExitStack() as stack:
            stack.enter_context(self._owning)
            try:
                self._before = note.read_bytes() if note.exists() else b""
                replace_together(out, {RESUME: resumption_to_json(self._asked)})
            except OSError as error:
                rule = f"could not be written: {error.strerror}"
                raise WriteFailed(f"out={out}: {rule}") from error
            self._stack = stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        """Remove the note if all is done. A command that was refused leaves all as it was."""
        with self._stack:
            refused = kind is not None and issubclass(kind, BadInput)
            if refused and self._before:
                with suppress(OSError):
                    replace_together(self._out, {RESUME: self._before})
            elif kind is None or refused:
                (self._out / RESUME).unlink(missing_ok=True)
