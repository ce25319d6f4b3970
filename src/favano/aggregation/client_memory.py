"""What clients keep from job to job: vectors of their method and optimiser, and their buffers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

from favano.errors import require
from favano.methods import Method
from favano.methods.method import S
from favano.schedule import Schedule, Timeline
from favano.training import Layout
from favano.types import Buffers, Ints, Stack, Vector


class KeptByClients(NamedTuple):
    """What a snapshot has of it, by client."""

    vectors: dict[int, Vector]
    steps: dict[int, int]  # of their optimisers so far
    buffers: dict[int, Vector]


class ClientMemory:
    """The memories of all clients of a run. A client begins with zeros and the model's buffers."""

    def __init__(
        self,
        method: Method[S],
        layout: Layout,
        *,
        kept: int = 0,  # vectors of their optimisers that clients keep
        buffers: Buffers = "average",
    ) -> None:
        self._name, self._layout, self._kept = method.name, layout, kept
        self.vectors = method.memory + kept  # of each client
        self.own_buffers = buffers == "local"
        self._now = KeptByClients({}, {}, {})
        self._last_used: dict[int, int] = {}  # server step that used each client last

    def check(self, schedule: Schedule) -> None:
        """Refuse a schedule in which clients go on before their update is used."""
        self._refuse_unless(not self.vectors or _used_before_next(schedule))

    def check_growth(self, timeline: Timeline, first: int) -> None:
        """The same for a timeline that grows, for its server steps from the first new one on."""
        if timeline.complete or not (self.vectors or self.own_buffers):
            return
        known = timeline.known
        for update in range(first, timeline.updates):
            for job in timeline.jobs(update).tolist():
                client = int(known.client[job])
                last = self._last_used.get(client, -1) if first else -1
                self._refuse_unless(int(known.start_version[job]) >= last)
                self._last_used[client] = update

    def _refuse_unless(self, in_time: bool) -> None:
        name, rule = self._name, "whose clients go on before their update is used"
        require(
            in_time or not self.own_buffers, "buffers", "local", f"need average with {name}, {rule}"
        )
        require(
            in_time or not self._kept, "optimiser_state", "kept", f"need fresh with {name}, {rule}"
        )
        rule = "has clients with a memory, which must not continue before their update is used"
        require(in_time, "method", name, rule)

    def starts(self, client: Ints, models: Stack) -> Stack:
        """What clients start from: these models with their own buffers, and their memories."""
        if self.own_buffers:
            models = self.with_own_buffers(client, models)
        if not self.vectors:
            return models
        memories = models.new_zeros(len(client), self.vectors * self._layout.parameters)
        for row, who in enumerate(client.tolist()):
            if who in self._now.vectors:
                memories[row] = self._now.vectors[who]
        return torch.cat([models, memories], dim=1)

    def with_own_buffers(self, client: Ints, models: Stack) -> Stack:
        """These models with the buffers that each client has ended with; at first, the models'."""
        refined, first = models.clone(), self._layout.parameters
        for row, who in enumerate(client.tolist()):
            if who in self._now.buffers:
                refined[row, first:] = self._now.buffers[who]
        return refined

    def with_end_buffers(self, client: Ints, steps: Ints, start: Stack, end: Stack) -> Stack:
        """End models with the clients' own buffers, also of jobs without steps."""
        first = self._layout.parameters
        idle = torch.from_numpy(steps == 0).to(end.device)[:, None]
        kept = self.with_own_buffers(client, start)[:, first:]
        return torch.cat([end[:, :first], torch.where(idle, kept, end[:, first:])], dim=1)

    def keep_buffers(self, client: Ints, end: Stack) -> None:
        """The clients' own buffers are those of their end models from now on."""
        kept = end[:, self._layout.parameters :].clone()
        self._now.buffers.update(zip(client.tolist(), kept, strict=True))

    def steps_before(self, client: Ints) -> Ints | None:
        """Steps of these clients' optimisers so far; None: they begin with zeros in each job."""
        if not self._kept:
            return None
        return np.array([self._now.steps.get(who, 0) for who in client.tolist()])

    def remember(self, client: int, memory: Vector | None, steps: int) -> None:
        """Renew the memory of a client after a job; None: it begins with zeros again."""
        self._now.vectors.pop(client, None)
        before = self._now.steps.pop(client, 0)
        if memory is not None:
            self._now.vectors[client], self._now.steps[client] = memory, before + steps

    @property
    def kept(self) -> KeptByClients:
        """All of it, for a snapshot."""
        return _copied(self._now)

    def restore(self, kept: KeptByClients) -> None:
        """Take over what a snapshot has."""
        self._now = _copied(kept)


def _copied(kept: KeptByClients) -> KeptByClients:
    return KeptByClients(dict(kept.vectors), dict(kept.steps), dict(kept.buffers))


def _used_before_next(schedule: Schedule) -> bool:
    """Whether each job starts from a version that includes the client's last update."""
    used = slice(0, schedule.jobs)
    order = np.lexsort((schedule.first_step[used], schedule.client[used]))
    client, base, used_by = (
        a[used][order] for a in (schedule.client, schedule.start_version, schedule.used_by)
    )
    return bool((base[1:] >= used_by[:-1])[client[1:] == client[:-1]].all())
