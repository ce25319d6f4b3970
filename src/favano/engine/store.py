"""Who holds which model. A client between contacts is a reference to a server version."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import torch

from favano.engine.shelf import Shelf
from favano.schedule import Course
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

    The course of the run says until when a version is needed: as the start of a job, or because a
    client holds it. It is dropped right after.
    """

    def __init__(self, course: Course, initial: Vector) -> None:
        self.clients = course.schedule.clients
        self._course, self._initial = course, initial
        self._shelf = Shelf(initial)
        self._versions: dict[int, Vector] = {}  # the initial one is always there
        self._own: dict[int, Vector] = {}
        self._buffers: dict[int, Vector] = {}
        self._held = np.full(self.clients, -1, dtype=np.int64)

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
        self._held[self._course.takers(version)] = version
        for old in self._course.unneeded(version):
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

    def _get(self, version: int) -> Vector:
        return self._initial if version == -1 else self._versions[version]
