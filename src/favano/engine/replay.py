"""One run of one algorithm, advanced update by update along its schedule."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Generic, Literal, NamedTuple

import numpy as np
import torch

from favano.algorithms.base import Algorithm, S, Visit
from favano.engine.store import ModelStore
from favano.errors import NonFiniteUpdate
from favano.schedule import Schedule
from favano.training import Layout, Trainer, Work, finite_rows
from favano.types import Floats, Ints, Stack, Vector

NonFinite = Literal["stop", "skip"]
Buffers = Literal["average", "local"]  # local: they never leave the clients

_NOBODY: Ints = np.empty(0, dtype=np.int64)


class Moment(NamedTuple):
    """The run right after an update; version -1 is the beginning."""

    version: int
    server: Vector
    refused: Ints  # clients whose update held NaN or infinity


class Replay(Generic[S]):
    """Everything about a run but the training itself, which anybody may do, in any order.

    Whoever trains asks for the jobs of an update, their start models and their work, and hands in
    their end models, update after update.
    """

    def __init__(
        self,
        algorithm: Algorithm[S],
        schedule: Schedule,
        layout: Layout,
        rates: Floats,  # (J,) step size of each job
        initial: Vector,
        *,
        non_finite: NonFinite = "stop",
        buffers: Buffers = "average",
    ) -> None:
        self.algorithm, self.schedule, self.layout, self.rates = algorithm, schedule, layout, rates
        self.store = ModelStore(schedule, initial)
        self.offsets = schedule.offsets
        self.moment = Moment(-1, initial, _NOBODY)
        self.state = algorithm.init(initial[: layout.parameters])
        self.non_finite, self._buffers = non_finite, buffers

    def jobs(self, version: int) -> Ints:
        """The jobs that update `version` uses."""
        return np.arange(self.offsets[version], self.offsets[version + 1])

    def starts(self, jobs: Ints) -> Stack:
        """Their start models, as soon as the versions they start from exist."""
        plan, parameters = self.schedule, self.layout.parameters
        start = self.store.starts(plan.client[jobs], plan.base[jobs])
        if self._buffers == "local":
            start[:, parameters:] = self.store.local_buffers(plan.client[jobs], start, parameters)
        return start

    def work(self, jobs: Ints) -> Work:
        """What is to be done from there."""
        plan = self.schedule
        return Work(plan.client[jobs], plan.first_step[jobs], plan.steps[jobs], self.rates[jobs])

    def update(self, start: Stack, end: Stack, finite: Sequence[bool]) -> Moment:
        """The next update, from the start and end models of its jobs, and which may be used."""
        version = self.moment.version + 1
        jobs, server = self.jobs(version), self.moment.server
        plan, parameters = self.schedule, self.layout.parameters
        if self._buffers == "local":
            self.store.keep_buffers(plan.client[jobs], end[:, parameters:])
        refused = _NOBODY
        if not all(finite):
            keep = np.array(finite)
            refused = plan.client[jobs[~keep]]
            if self.non_finite == "stop":
                raise NonFiniteUpdate(refused.tolist(), version + 1)
            rows = torch.from_numpy(np.flatnonzero(keep)).to(end.device)
            start, end, jobs = start[rows], end[rows], jobs[keep]
        if len(jobs):
            visit = Visit(plan.client[jobs], plan.steps[jobs], version - 1 - plan.base[jobs])
            begin, done = start[:, :parameters], end[:, :parameters]
            self.state = self.algorithm.update(self.state, visit, begin, done)
            own = self.algorithm.restart(server, end)
            if own is not None:
                self.store.keep_own(plan.client[jobs], own)
            server = self.state.model
            if self.layout.size > parameters:
                server = torch.cat([server, self._merge_buffers(self.moment.server, end)])
        self.store.forget_own(refused)
        self.store.put(version, server)
        self.moment = Moment(version, server, refused)
        return self.moment

    def _merge_buffers(self, server: Vector, end: Stack) -> Vector:
        """Buffers are averaged as the algorithm says; of counters the largest wins."""
        first = self.layout.parameters
        last = first + self.layout.buffers
        if self._buffers == "local":
            return server[first:]
        averaged = self.algorithm.average(server[first:last], end[:, first:last])
        counters = torch.maximum(server[last:], end[:, last:].amax(dim=0))
        return torch.cat([averaged, counters])


def replayed(replay: Replay[S], trainer: Trainer) -> Iterator[Moment]:
    """All server versions one after the other, each update's jobs trained when it is due."""
    yield replay.moment
    for version in range(replay.schedule.updates):
        jobs = replay.jobs(version)
        start = replay.starts(jobs)
        end = trainer.train(start, replay.work(jobs))
        yield replay.update(start, end, finite_rows(end))
