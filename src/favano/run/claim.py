"""A folder at work: a note of the command in it, and a lock against a second process."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Self

from favano.errors import BadInput, WriteFailed, need
from favano.records.resumption import RESUME, Resumption, resumption_to_json
from favano.run.result_folder import check_writable

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]


class Claim:
    """For a `with` block. The note stays if the block fails, so that the command can go on.

    A comparison writes into folders of its folder, so nobody may be at work above or below either.

    The lock belongs to the process alone: it ends with it, however it ends, and forked workers do
    not have it.
    """

    def __init__(self, out: Path, asked: Resumption, *, alone: bool = True) -> None:
        self._path, self._asked, self._alone = out / RESUME, asked, alone
        self._file, self._before = -1, b""  # the note of an earlier command, if there is one
        self._made = [path for path in (out, *out.parents) if not path.exists()]

    def __enter__(self) -> Self:
        """Write the note; refused while another process is at work in the folder."""
        out, text = self._path.parent, resumption_to_json(self._asked).encode()
        check_writable(out)
        for other in (out.parent / RESUME, *out.glob(f"*/{RESUME}")):
            need(not _is_locked(other), "out", out, f"another process is at work in {other.parent}")
        try:
            out.mkdir(parents=True, exist_ok=True)
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)
            self._lock()
            self._before = os.pread(self._file, os.fstat(self._file).st_size, 0)
            self._write(text)
        except OSError as error:
            raise WriteFailed(f"out={out}: could not be written: {error.strerror}") from error
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        """Remove the note if all is done. A command that was refused leaves all as it was."""
        refused = kind is not None and issubclass(kind, BadInput)
        if refused and self._before:
            with suppress(OSError):
                self._write(self._before)
        elif kind is None or refused:
            self._path.unlink(missing_ok=True)
        os.close(self._file)
        for folder in self._made if refused else ():
            with suppress(OSError):  # it holds something by now
                folder.rmdir()

    def _write(self, text: bytes) -> None:
        os.pwrite(self._file, text, 0)
        os.ftruncate(self._file, len(text))
        os.fsync(self._file)

    def _lock(self) -> None:
        if fcntl is None or not self._alone:
            return
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            os.close(self._file)
            rule = "another process is at work in this folder; wait for it, or choose a new folder"
            raise BadInput("out", self._path.parent, rule) from None


def _is_locked(path: Path) -> bool:
    """Whether a process is at work in the folder of this note."""
    if fcntl is None or not path.is_file():
        return False
    with path.open("rb") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
    return False
