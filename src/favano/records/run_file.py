"""`runs/<digest>.json`: one run of `favano reproduce`, named by the digest of its specification."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import nan
from typing import Annotated, Final

from pydantic import BeforeValidator

from favano.records.document import from_json, null_is_nan, to_json
from favano.records.history import Row
from favano.records.ledger import Entry

FOLDER: Final = "runs"


@dataclass(frozen=True, kw_only=True)
class RunFile:
    """The content of a run file."""

    favano: str  # the version that wrote it
    command: str
    spec: dict[str, object]
    footprint: str  # constants used for energy and carbon
    kernels: str | None = None  # CPU kernels used for training; unknown in earlier versions
    entry: Entry
    history: Annotated[tuple[Row, ...], BeforeValidator(null_is_nan)]


def run_to_json(run: RunFile) -> str:
    """The text of a run file."""
    return to_json(run) + "\n"


def run_from_json(text: str) -> RunFile:
    """The inverse of `run_to_json`; a `ValueError` if the file is damaged."""
    found = from_json(RunFile, text)
    entry = found.entry
    loss, variance = (nan if one is None else one for one in (entry.loss, entry.variance))
    return replace(found, entry=entry._replace(loss=loss, variance=variance))
