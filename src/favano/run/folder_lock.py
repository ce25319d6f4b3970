"""One process at a time in a folder, by a lock that ends with its process, however it ends."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from favano.errors import BadInput, WriteFailed

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
