"""Who holds which model. A client between contacts is a reference to a server version."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch

from favano.engine.lifetimes import lifetimes
from favano.engine.shelf import Shelf
from favano.engine.spread import Spread, spread
from favano.schedule import Schedule
from favano.types import Ints, Stack, Vector

_NUMBERS_AT_ONCE = 1 << 24
NOTHING: Mapping[int, Vector] = {}


class ModelStore:
    """Server versions that somebody still needs, and the models clients keep for themselves.

    The schedule says ahead of time until when a version is needed: as the start of a job, or
    because a client holds it. It is dropped right after.
    """

    def __init__(self, schedule: Schedule, initial: Vector) -> None:
        self.clients = schedule.clients
        self._initial = initial
        self._shelf = Shelf(initial)
        self._versions: dict[int, Vector] = {}  # the initial one is always there
        self._own: dict[int, Vector] = {}
        self._buffers: dict[int, Vector] = {}
        self._held = np.full(schedule.clients, -1, dtype=np.int64)
        self.lifetimes = lifetimes(schedule)

    def starts(self, client: Ints, base: Ints) -> Stack:
        """Start models of the jobs: a client's own model where it has one."""
        pairs = zip(client.tolist(), base.tolist(), strict=True)
        models = [self.start(who, version) for who, version in pairs]
        return torch.stack(models) if models else self._initial.new_empty(0, len(self._initial))

    def start(self, client: int, base: int) -> Vector:
        """Start model of one job; not a copy."""
        return self._own[client] if client in self._own else self._get(base)

    def put(self, version: int, server: Vector) -> None:
        """Take in a new server version, and forget those that nobody needs any more."""
        self._versions[version] = self._shelf.keep(server)
        self._held[self.lifetimes.takers_of(version)] = version
        for old in self.lifetimes.gone_after(version - 1).tolist() if version else []:
            self._shelf.give_back(self._versions.pop(old))

    def keep_own(self, client: Ints, models: Stack) -> None:
        """These clients go on from models of their own."""
        self._own.update(zip(client.tolist(), models, strict=True))

    def forget_own(self, client: Ints) -> None:
        """These clients' own models are unusable: they go on from the server's."""
        for who in client.tolist():
            self._own.pop(who, None)

    def local_buffers(self, client: Ints, start: Stack, parameters: int) -> Stack:
        """The buffers that these clients keep to themselves; those of `start` for newcomers."""
        pairs = zip(client.tolist(), start[:, parameters:], strict=True)
        return torch.stack([self._buffers.get(who, given) for who, given in pairs])

    def keep_buffers(self, client: Ints, buffers: Stack) -> None:
        """These clients keep these buffers to themselves."""
        self._buffers.update(zip(client.tolist(), buffers.clone(), strict=True))

    @property
    def versions(self) -> int:
        """How many server versions are in memory."""
        return len(self._versions)

    def spread(
        self, server: Vector, parameters: int, live: Mapping[int, Vector] = NOTHING
    ) -> Spread:
        """Distances over the first `parameters` entries; the mean over all of them.

        A client's model is the one in `live`, else its own, else the version it holds.
        """
        single = {**self._own, **live}
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

    def _get(self, version: int) -> Vector:
        return self._initial if version == -1 else self._versions[version]
