"""`resume.json`: the command at work in a folder; it is removed when the result is complete."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Final

from favano.records.document import from_json, to_json

RESUME: Final = "resume.json"


@dataclass(frozen=True)
class Resumption:
    """What was asked, and where."""

    command: tuple[str, ...]  # the words after `favano`
    folder: str  # the working directory
    out: str  # the result folder, seen from there
    data: str | None = None  # $FAVANO_DATA


def resumption_to_json(asked: Resumption) -> str:
    """The text of `resume.json`."""
    return to_json(asked, indent=2) + "\n"


resumption_from_json = partial(from_json, Resumption)
