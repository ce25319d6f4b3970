"""What a client keeps from job to job: vectors of its optimiser and method, and models it was sent.

It is kept by run and job, so that a job whose update was lost leaves no trace: a call names the job
to go on after. That job and the newest two of one run are kept, as safetensors.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

import torch
from flwr.app import ConfigRecord, RecordDict
from safetensors import SafetensorError
from safetensors.torch import load, save

from favano.errors import BadInput
from favano.flower.payload import fingerprint
from favano.types import Vector

_RECORD = "favano"


class Remembered(NamedTuple):
    """What is kept of one job."""

    start: Vector  # the model that it began from
    vectors: Vector  # of optimiser and method, after the job
    steps: int  # that the optimiser has made since its vectors were zeros


class Store(Protocol):
    """A place for bytes that outlasts the process."""

    def read(self) -> bytes:
        """What was written last; nothing if nothing was."""

    def write(self, data: bytes) -> None:
        """Replace it, whole or not at all."""


@dataclass(frozen=True)
class NodeMemory:
    """The jobs of one run that a client remembers, by number."""

    run: str = ""
    jobs: Mapping[int, Remembered] = field(default_factory=dict)

    def of(self, run: str, job: int) -> Remembered | None:
        """What is known of a job."""
        return self.jobs.get(job) if run == self.run else None

    def start(self, run: str, key: int) -> Vector | None:
        """The start model of this fingerprint."""
        starts = (job.start for job in self.jobs.values()) if run == self.run else ()
        return next((start for start in starts if fingerprint(start) == key), None)

    def with_job(self, run: str, job: int, new: Remembered, after: int = -1) -> NodeMemory:
        """The same and one more job, which went on after another; another run begins anew."""
        others = {key: old for key, old in self.jobs.items() if run == self.run and key != job}
        kept = {after, *list(others)[-1:]}
        return NodeMemory(run, {**{key: others[key] for key in others if key in kept}, job: new})

    def to_bytes(self) -> bytes:
        """The content of a safetensors file."""
        tensors = {}
        for place, (job, kept) in enumerate(self.jobs.items()):
            name = f"{self.run}/{place}/{job}"
            tensors[f"{name}/start"], tensors[f"{name}/vectors"] = kept.start, kept.vectors
            tensors[f"{name}/steps"] = torch.tensor(kept.steps)
        return save(tensors)

    @staticmethod
    def from_bytes(data: bytes) -> NodeMemory:
        """The inverse of `to_bytes`."""
        if not data:
            return NodeMemory()
        try:
            tensors = load(data)
            names = sorted({name.rpartition("/")[0] for name in tensors})
            parts = [name.split("/") for name in names]
            jobs = {
                int(job): Remembered(
                    tensors[f"{name}/start"],
                    tensors[f"{name}/vectors"],
                    int(tensors[f"{name}/steps"]),
                )
                for name, (_, _, job) in zip(names, parts, strict=True)
            }
        except (SafetensorError, ValueError, KeyError) as error:
            rule = f"cannot be read: {error}; remove it, and the client begins anew"
            raise BadInput("memory", f"{len(data)} bytes", rule) from None
        return NodeMemory(parts[0][0] if parts else "", jobs)


class FileStore:
    """A file, written to disk before it replaces the one before."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> bytes:
        """The content of the file; nothing if there is none."""
        return self._path.read_bytes() if self._path.exists() else b""

    def write(self, data: bytes) -> None:
        """Replace the file."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        new = self._path.with_name(f"{self._path.name}.new")
        with new.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        new.replace(self._path)


class StateStore:
    """The state that Flower keeps for a ClientApp between the messages of one run."""

    def __init__(self, state: RecordDict) -> None:
        self._state = state

    def read(self) -> bytes:
        """What the state has of ours."""
        record = self._state.get(_RECORD)
        content = record.get("memory", b"") if isinstance(record, ConfigRecord) else b""
        return content if isinstance(content, bytes) else b""

    def write(self, data: bytes) -> None:
        """Replace it."""
        self._state[_RECORD] = ConfigRecord({"memory": data})


class NoStore:
    """For a client that forgets when its process ends."""

    def __init__(self) -> None:
        self._data = b""

    def read(self) -> bytes:
        """What was written in this process."""
        return self._data

    def write(self, data: bytes) -> None:
        """Replace it."""
        self._data = data
