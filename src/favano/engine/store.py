"""Who holds which model. A client between contacts is a reference to a server version."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import torch

from favano.engine.link import Link, first_versions
from favano.engine.shelf import Shelf
from favano.schedule import Schedule
from favano.types import Ints, Stack, Vector

_NUMBERS_AT_ONCE = 1 << 24
NOTHING: Mapping[int, Vector] = {}


class Spread(NamedTuple):
    """How far the clients' start models are from the server model and from the mean of all."""

    variance: float  # sum_i ||w_i - w||^2
    potential: float  # ||w - mu||^2 + sum_i ||w_i - mu||^2
    mean: Vector  # mu = (w + sum_i w_i) / (n + 1)


class ModelStore:
    """Server versions that somebody still needs, and the models clients keep for themselves.

    The schedule says ahead of time until when a version is needed: as the start of a job, or
    because a client holds it. It is dropped right after. Behind a codec a version is what each
    client read of it, for as long as the version itself is needed.
    """

    def __init__(self, schedule: Schedule, initial: Vector, link: Link | None = None) -> None:
        self.clients = schedule.clients
        self._initial = initial
        self._shelf = Shelf(initial)
        self._versions: dict[int, Vector] = {}  # the initial one is always there
        self._own: dict[int, Vector] = {}
        self._buffers: dict[int, Vector] = {}
        self._link, self._first = link, first_versions(schedule)
        self._read: dict[int, dict[int, Vector]] = {}  # of a version, by client
        self._held = np.full(schedule.clients, -1, dtype=np.int64)
        order = np.lexsort((schedule.first_step, schedule.begin, schedule.base))
        self._taker = schedule.client[order]
        self._offsets = np.searchsorted(schedule.base[order], np.arange(schedule.updates + 1))
        self._dropped_after = _last_use(schedule)

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
        """Take in a new server version, and forget those that nobody needs any more."""
        self._versions[version] = self._shelf.keep(server)
        taken = self._taker[self._offsets[version] : self._offsets[version + 1]]
        if self._link is not None:
            who = [c for c in np.unique(taken).tolist() if self._reads_encoded(c, version)]
            last = [self.start(client, int(self._held[client])) for client in who]
            self._read[version] = self._link.hand_out(version, server, who, last)
        self._held[taken] = version
        for old in self._dropped_after.pop(version - 1, []):
            self._read.pop(old, None)
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
        read = {
            client: model
            for version, models in self._read.items()
            for client, model in models.items()
            if self._held[client] == version
        }
        single = {**read, **self._own, **live}
        groups = [(1, model) for model in single.values()]
        held = np.delete(self._held, list(single))
        versions, counts = np.unique(held, return_counts=True)
        groups += [
            (int(count), self._get(version))
            for version, count in zip(versions.tolist(), counts, strict=True)
        ]
        reference = server.double()
        total = torch.zeros_like(reference)
        squares = reference.new_zeros(())
        at_once = max(1, _NUMBERS_AT_ONCE // len(server))
        for first in range(0, len(groups), at_once):
            part = groups[first : first + at_once]
            count = reference.new_tensor([count for count, _ in part])
            distance = torch.stack([model for _, model in part]).double() - reference
            squares += count @ distance[:, :parameters].square().sum(dim=1)
            total += count @ distance
        shift = total / (self.clients + 1)
        excess = total[:parameters] @ shift[:parameters]
        variance, potential = torch.stack([squares, squares - excess]).tolist()
        return Spread(variance, max(0.0, potential), (reference + shift).to(server.dtype))

    def _reads_encoded(self, client: int, version: int) -> bool:
        """Whether the client adopts this version, and it is not its first."""
        return client not in self._own and self._first[client] < version

    def _get(self, version: int) -> Vector:
        return self._initial if version == -1 else self._versions[version]


def _last_use(schedule: Schedule) -> dict[int, list[int]]:
    """For each update, the versions that are needed there for the last time."""
    order = np.lexsort((schedule.first_step, schedule.begin, schedule.client))
    client, base, visit = schedule.client[order], schedule.base[order], schedule.visit[order]
    held_until = np.append(base[1:] - 1, schedule.updates)  # the client's next job replaces it
    held_until[np.append(client[1:] != client[:-1], True)] = schedule.updates
    needed = (visit < schedule.updates) | np.isinf(schedule.finish[order])  # used, or under way
    until = np.maximum(np.where(needed, visit, -1), held_until)
    last = np.arange(-1, schedule.updates)  # a version is the server's own until the next one
    np.maximum.at(last, base + 1, until)
    dropped: dict[int, list[int]] = {}
    for version, use in enumerate(last[1:].tolist()):
        dropped.setdefault(use, []).append(version)
    return dropped
