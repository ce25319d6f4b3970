"""What goes to a machine of a cluster, and what comes back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from favano.errors import BadInput
from favano.results import Result
from favano.specification.spec import Spec


class Asked(NamedTuple):
    """The part of one specification in a pack."""

    keys: Mapping[str, object]
    source: str | None  # digest of the method's file
    seeds: tuple[int, ...]
    saved: Mapping[str, bytes]  # checkpoints by file name
    spec: Spec | None = None  # where keys and files do not describe it
    classes: tuple[Mapping[str, object], ...] = ()  # values of those of its own parts, then


@dataclass(frozen=True)
class Order:
    """A pack as it is sent."""

    asked: Mapping[int, Asked]  # by the number of the specification
    files: Mapping[str, bytes]  # that specifications name, by path
    sources: Mapping[str, str]  # of code that is sent as objects, for its digests
    workers: int  # processes, on a CPU
    checkpoints: bool
    every: float | None  # seconds between two checkpoints
    rate: float  # bytes of checkpoints per second, if no interval is asked for
    progress_every: float  # seconds between two messages about progress
    keep_last: bool
    audits: bool


class Began(NamedTuple):
    """The pack has begun, or goes on."""

    steps: int  # left


class Advanced(NamedTuple):
    """Progress of one run, with the steps of all runs."""

    label: str
    steps: int
    time: float


class Notice(NamedTuple):
    """A sentence for the user."""

    sentence: str


class SavedPack(NamedTuple):
    """A checkpoint file."""

    number: int
    seed: int
    name: str
    content: bytes


class Ended(NamedTuple):
    """Runs of one specification have ended; the driver has the specification itself."""

    number: int
    seeds: tuple[int, ...]
    result: Result


class PackRefused(NamedTuple):
    """The pack cannot be run."""

    error: BadInput


Message: TypeAlias = Began | Advanced | Notice | SavedPack | Ended | PackRefused
