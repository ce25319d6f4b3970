"""The journal: replies on disk before they are confirmed, so that none is lost with its reader.

Flower forgets a reply when it is pulled, and its content when it is confirmed. In between it is
ours to keep: first its head, then its content, each written to disk before the next step.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from favano.records.checkpoint import Tree, checkpoint_from_bytes, checkpoint_to_bytes
from favano.records.folder import write_together

_NAME = re.compile(r"[0-9a-zA-Z_-]{1,128}")
_HEAD, _BODY = ".head", ".reply"


class Head(NamedTuple):
    """A reply that has arrived, without its content."""

    message: str  # Flower's number of the reply
    call: str  # that of the message that it answers
    objects: tuple[str, ...]  # names of the parts of its content


class Journal:
    """Replies in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def begin(self, head: Head) -> None:
        """A reply has arrived, and is now nowhere else."""
        write_together(self._folder, {self._name(head.call, _HEAD): json.dumps(head)})

    def finish(self, head: Head, contents: Mapping[str, bytes]) -> None:
        """The content of a reply is here."""
        parts: list[Tree] = [np.frombuffer(one, dtype=np.uint8) for one in contents.values()]
        data = checkpoint_to_bytes([json.dumps(head), json.dumps(list(contents)), parts])
        write_together(self._folder, {self._name(head.call, _BODY): data})
        self._path(head.call, _HEAD).unlink(missing_ok=True)

    def heads(self) -> list[Head]:
        """Replies whose content is still to be fetched."""
        return [_head(path.read_text()) for path in sorted(self._folder.glob(f"*{_HEAD}"))]

    def replies(self) -> list[tuple[Head, dict[str, bytes]]]:
        """Replies that are here; damaged ones were not finished, and are left out."""
        found = []
        for path in sorted(self._folder.glob(f"*{_BODY}")):
            try:
                found.append(_read(path.read_bytes()))
            except ValueError:
                path.unlink(missing_ok=True)
        return found

    def keep(self, calls: Collection[str]) -> None:
        """Forget all replies but those to these calls."""
        for path in self._folder.glob("*"):
            if path.suffix in (_HEAD, _BODY) and path.stem not in calls:
                path.unlink(missing_ok=True)

    def _path(self, call: str, suffix: str) -> Path:
        return self._folder / self._name(call, suffix)

    def _name(self, call: str, suffix: str) -> str:
        if not _NAME.fullmatch(call):
            raise ValueError(f"{call[:40]!r} is not a number of a message")
        return f"{call}{suffix}"


def _head(text: str) -> Head:
    message, call, objects = json.loads(text)
    return Head(message, call, tuple(objects))


def _read(data: bytes) -> tuple[Head, dict[str, bytes]]:
    match checkpoint_from_bytes(data):
        case [str(head), str(names), list(parts)]:
            contents = (np.asarray(part).tobytes() for part in parts)
            return _head(head), dict(zip(json.loads(names), contents, strict=True))
    raise ValueError("is damaged")
