"""`events.jsonl`: the events of a federation, one per line, appended and never changed.

The last value of a line is its checksum, which goes on from that of the line before it: a line that
was changed, lost, doubled or moved is found. A mark in a checkpoint says how many lines count.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from favano.errors import BadInput, WriteFailed, require
from favano.flower.ledger import EVENTS, Event
from favano.records.chain import short_digest


class Mark(NamedTuple):
    """A place in the file: behind so many lines, of which the last has this checksum."""

    lines: int = 0
    checksum: str = ""


class EventFile:
    """The file of one federation. Events stay in memory until they are on disk."""

    def __init__(self, path: Path, say: Callable[[str], None]) -> None:
        self._path, self._say = path, say
        self._mark, self._bytes = Mark(), 0  # what counts
        self._behind = 0  # bytes that a killed server wrote after its last checkpoint
        self._waiting: list[Event] = []

    def append(self, new: Sequence[Event]) -> Mark:
        """Write events behind those that count; what a killed server left there is cut."""
        self._waiting += new
        text, mark = "", self._mark
        for event in self._waiting:
            line, checksum = _line(event, mark.checksum)
            text, mark = text + line, Mark(mark.lines + 1, checksum)
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("r+b" if self._path.exists() else "wb") as file:
                file.seek(self._bytes)
                file.write(text.encode())
                file.truncate()
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            rule = f"could not be written: {error.strerror}"
            raise WriteFailed(f"out={self._path}: {rule}") from error
        self._mark, self._bytes, self._waiting = mark, self._bytes + len(text), []
        if self._behind:
            self._say(f"{self._path}: {self._behind} bytes behind the last checkpoint were cut")
            self._behind = 0
        return mark

    def read(self, mark: Mark) -> list[Event]:
        """The events up to a mark; a file that is damaged before it is refused, and left as it is.

        What is behind the mark belongs to no checkpoint, and is cut by the next `append`.
        """
        try:
            lines = self._path.read_bytes().splitlines(keepends=True)
        except OSError as error:
            raise BadInput("resume", self._path, f"cannot be read: {error.strerror}") from error
        events, before = list[Event](), ""
        for number, line in enumerate(lines[: mark.lines], 1):
            event, before = _read(line, before, f"{self._path}:{number}")
            events.append(event)
        rule = f"is damaged: it ends after {len(events)} of {mark.lines} events"
        require(len(events) == mark.lines, "resume", self._path, rule)
        rule = "is of another federation than the checkpoint beside it"
        require(before == mark.checksum, "resume", self._path, rule)
        self._mark, self._bytes = mark, sum(map(len, lines[: mark.lines]))
        self._behind = sum(map(len, lines[mark.lines :]))
        return events


def _line(event: Event, before: str) -> tuple[str, str]:
    """The line of an event after one with this checksum, and its own."""
    values = [type(event).__name__, *event]
    checksum = short_digest(json.dumps([before, *values]).encode())
    return json.dumps([*values, checksum]) + "\n", checksum


def _read(line: bytes, before: str, place: str) -> tuple[Event, str]:
    """The event of a line after one with this checksum, and its own."""
    try:
        kind, *values, _ = json.loads(line)
        event = EVENTS[kind](*values)
        again, checksum = _line(event, before)
        if again.encode() == line:
            return event, checksum
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    raise BadInput("resume", place, "is damaged: the event is not the one that was written")
