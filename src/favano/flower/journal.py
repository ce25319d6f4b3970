"""The journal: replies on disk before they are confirmed, so that none is lost with its reader.

Flower forgets a reply when it is pulled, and its content when it is confirmed. In between it is
ours to keep: first its head, then its content, each written to disk before the next step.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from favano.records.checkpoint import Tree, checkpoint_from_bytes, checkpoint_to_bytes
from favano.records.folder import write_together

_NAME = re.compile(r"[0-9a-zA-Z_-]{1,128}")
_HEAD, _BODY, _DAMAGED = ".head", ".reply", ".damaged"


class Head(NamedTuple):
    """A reply that has arrived, without its content."""

    message: str  # Flower's number of the reply
    call: str  # that of the message that it answers
    objects: tuple[str, ...]  # names of the parts of its content


class Kept(NamedTuple):
    """What a server that goes on finds in its journal."""

    replies: Mapping[Head, Mapping[str, bytes]]  # that are whole, with their content
    heads: Sequence[Head]  # of replies whose content is still to be fetched
    damaged: Mapping[str, Path]  # files that cannot be used, by call; they are kept aside


class Journal:
    """Replies in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def begin(self, head: Head) -> None:
        """A reply has arrived, and is now nowhere else."""
        data = checkpoint_to_bytes(json.dumps(head))
        write_together(self._folder, {self._name(head.call, _HEAD): data})

    def finish(self, head: Head, contents: Mapping[str, bytes]) -> None:
        """The content of a reply is here."""
        parts: list[Tree] = [np.frombuffer(part, dtype=np.uint8) for part in contents.values()]
        data = checkpoint_to_bytes([json.dumps(head), json.dumps(list(contents)), parts])
        write_together(self._folder, {self._name(head.call, _BODY): data})
        self._path(head.call, _HEAD).unlink(missing_ok=True)

    def read(self) -> Kept:
        """All that is here; damaged files get another name, so that they can be looked at."""
        replies: dict[Head, Mapping[str, bytes]] = {}
        heads, damaged = list[Head](), dict[str, Path]()
        for path in sorted(self._folder.glob("*")):
            try:
                if path.suffix == _BODY:
                    head, contents = _reply(path.read_bytes())
                    replies[head] = contents
                elif path.suffix == _HEAD:
                    heads.append(_head(checkpoint_from_bytes(path.read_bytes())))
            except ValueError:
                damaged[path.stem] = path.rename(path.with_name(f"{path.name}{_DAMAGED}"))
        whole = {head.call for head in replies}
        return Kept(replies, [head for head in heads if head.call not in whole], damaged)

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


def _head(text: Tree) -> Head:
    message, call, objects = json.loads(str(text))
    return Head(message, call, tuple(objects))


def _reply(data: bytes) -> tuple[Head, dict[str, bytes]]:
    match checkpoint_from_bytes(data):
        case [str(head), str(names), list(parts)]:
            contents = (np.asarray(part).tobytes() for part in parts)
            return _head(head), dict(zip(json.loads(names), contents, strict=True))
    raise ValueError("is damaged")
