"""A folder at work: a note of the command in it, and a lock against a second process."""

from __future__ import annotations

from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Self

from favano.errors import BadInput, WriteFailed, require
from favano.records.folder import replace_together
from favano.records.resumption import RESUME, Resumption, resumption_to_json
from favano.results import check_writable
from favano.run.folder_lock import folder_lock, is_locked, made_folder


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
