"""The files of a federation: what its server was told, its trace, its first and its last model."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Final

from favano.records.document import from_json, to_json

FEDERATION: Final = "federation.json"
TRACE: Final = "trace.npz"
INITIAL: Final = "initial.safetensors"


@dataclass(frozen=True)
class FederationRecord:
    """What a federation has besides a specification."""

    rounds: int
    tick: float | None  # seconds
    grace: float
    step_seconds: float  # before any was measured
    influence: float | None = None  # bound of each client's; releases before 0.3.1 do not say it


def federation_to_json(record: FederationRecord) -> str:
    """The text of `federation.json`."""
    return to_json(record, indent=2) + "\n"


federation_from_json = partial(from_json, FederationRecord)
