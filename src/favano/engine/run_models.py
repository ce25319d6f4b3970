"""The models that the clients of one run hold; most are references to a server version."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch

from favano.engine.link import Link, first_versions
from favano.engine.model_rows import ModelRows
from favano.engine.spread import Spread, spread
from favano.schedule import Course
from favano.types import Ints, Stack, Vector

_NUMBERS_AT_ONCE = 1 << 24
NOTHING: Mapping[int, Vector] = {}


class RunModels:
    """Server versions that are still needed, and clients' own models.

    A version is dropped when it is neither the start of a job nor held by a client any more; the
    course of the run knows when. With a codec, each client reads a version differently; what it
    reads is kept as long as the version.
    """

    def __init__(self, course: Course, initial: Vector, link: Link | None = None) -> None:
        self.clients = course.schedule.clients
        self._course, self._initial = course, initial
        self._rows = ModelRows(initial)
        self._versions: dict[int, int] = {}  # row numbers, without the initial model
        self._own: dict[int, Vector] = {}
        self._buffers: dict[int, Vector] = {}
        self._held = np.full(self.clients, -1, dtype=np.int64)
        self._link, self._first = link, first_versions(course.schedule)
        self._read: dict[int, dict[int, Vector]] = {}  # by version and client

    def starts(self, client: Ints, base: Ints) -> Stack:
        """Start models of the jobs: a client's own model where it has one."""
        pairs = zip(client.tolist(), base.tolist(), strict=True)
        models = [self.start(who, version) for who, version in pairs]
        return torch.stack(models) if models else self._initial.new_empty(0, len(self._initial))

    def start(self, client: int, base: int) -> Vector:
        """Start model of one job; not a copy."""
        if client in self._own:
            return self._own[client]
        read = self._read.get(base, NOTHING).get(client)
        return self._get(base) if read is None else read

    def put(self, version: int, server: Vector) -> None:
        """Keep a new server version, and drop those that are no longer needed."""
        self._versions[version] = self._rows.keep_one(server)
        taken = self._course.takers(version)
        if self._link is not None:
            who = [c for c in np.unique(taken).tolist() if self._reads_encoded(c, version)]
            last = [self.start(client, int(self._held[client])) for client in who]
            self._read[version] = self._link.hand_out(version, server, who, last)
        self._held[taken] = version
        for old in self._course.unneeded(version):
            self._read.pop(old, None)
            self._rows.give_back_one(self._versions.pop(old))

    def keep_own(self, client: Ints, models: Stack) -> None:
        """These clients continue from models of their own."""
        self._own.update(zip(client.tolist(), models, strict=True))

    def forget_own(self, client: Ints) -> None:
        """These clients continue from the server model."""
        for who in client.tolist():
            self._own.pop(who, None)

    def local_buffers(self, client: Ints, start: Stack, parameters: int) -> Stack:
        """The buffers that these clients keep locally; before their first job those of `start`."""
        pairs = zip(client.tolist(), start[:, parameters:], strict=True)
        return torch.stack([self._buffers.get(who, given) for who, given in pairs])

    def keep_buffers(self, client: Ints, buffers: Stack) -> None:
        """Let these clients keep these buffers locally."""
        self._buffers.update(zip(client.tolist(), buffers.clone(), strict=True))

    @property
    def versions(self) -> int:
        """Number of server versions in memory."""
        return len(self._versions)

    def spread(
        self, server: Vector, parameters: int, live: Mapping[int, Vector] = NOTHING
    ) -> Spread:
        """The spread: distances of the first `parameters` entries, mean of all entries.

        A client's model is the one in `live`, else its own, else the version that it holds.
        """
        read = {
            client: model
            for version, models in self._read.items()
            for client, model in models.items()
            if self._held[client] == version
        }
        single = {**read, **self._own, **live}
        held = np.delete(self._held, list(single))
        versions, counts = np.unique(held, return_counts=True)
        models = [*single.values(), *(self._get(version) for version in versions.tolist())]
        counts = np.concatenate([np.ones(len(single), dtype=np.int64), counts])
        at_once = max(1, _NUMBERS_AT_ONCE // len(server))
        parts = (
            (torch.stack(models[first : first + at_once]), counts[first : first + at_once])
            for first in range(0, len(models), at_once)
        )
        return spread(parts, server, parameters)

    def _reads_encoded(self, client: int, version: int) -> bool:
        """Whether the client adopts this version, and has had one before."""
        return client not in self._own and self._first[client] < version

    def _get(self, version: int) -> Vector:
        return self._initial if version == -1 else self._rows.row(self._versions[version])
