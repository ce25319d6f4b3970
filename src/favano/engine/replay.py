"""Replays a schedule: local training and server updates in the order in which they happened."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, Literal, NamedTuple

import numpy as np
import torch

from favano.algorithms import Algorithm, Visit
from favano.algorithms.base import S
from favano.engine.store import ModelStore
from favano.errors import NonFiniteUpdate
from favano.schedule import Schedule
from favano.training import Layout, Trainer, Work
from favano.types import Floats, Ints, Stack, Vector

NonFinite = Literal["stop", "skip"]
Buffers = Literal["average", "local"]  # local: they never leave the clients


class Moment(NamedTuple):
    """The run right after an update; version -1 is the beginning."""

    version: int
    server: Vector
    refused: Ints  # clients whose update held NaN or infinity


@dataclass(frozen=True, eq=False)
class Replay(Generic[S]):
    """One run of one algorithm: the schedule is given, the trainer does the local work."""

    algorithm: Algorithm[S]
    schedule: Schedule
    trainer: Trainer
    layout: Layout
    rates: Floats  # (J,) step size of each job
    store: ModelStore
    non_finite: NonFinite = "stop"
    buffers: Buffers = "average"

    def moments(self, initial: Vector) -> Iterator[Moment]:
        """All server versions, one after the other."""
        nobody = np.empty(0, dtype=np.int64)
        state = self.algorithm.init(initial[: self.layout.parameters])
        server = initial
        offsets = self.schedule.offsets
        yield Moment(-1, server, nobody)
        for version in range(self.schedule.updates):
            jobs = np.arange(offsets[version], offsets[version + 1])
            refused = nobody
            if len(jobs):
                state, server, refused = self._update(state, server, jobs)
            self.store.put(version, server)
            yield Moment(version, server, refused)

    def _update(self, state: S, server: Vector, jobs: Ints) -> tuple[S, Vector, Ints]:
        plan, parameters = self.schedule, self.layout.parameters
        start = self.store.starts(plan.client[jobs], plan.base[jobs])
        if self.buffers == "local":
            start[:, parameters:] = self.store.local_buffers(plan.client[jobs], start, parameters)
        work = Work(plan.client[jobs], plan.first_step[jobs], plan.steps[jobs], self.rates[jobs])
        end = self.trainer.train(start, work)
        if self.buffers == "local":
            self.store.keep_buffers(plan.client[jobs], end[:, parameters:])
        finite = torch.isfinite(end).all(dim=1).cpu().numpy()
        refused = plan.client[jobs[~finite]]
        if len(refused):
            if self.non_finite == "stop":
                raise NonFiniteUpdate(refused.tolist(), int(plan.visit[jobs[0]]) + 1)
            keep = torch.from_numpy(finite).to(end.device)
            start, end, jobs = start[keep], end[keep], jobs[finite]
        before = server
        if len(jobs):
            staleness = plan.visit[jobs] - 1 - plan.base[jobs]
            visit = Visit(plan.client[jobs], plan.steps[jobs], staleness)
            state = self.algorithm.update(state, visit, start[:, :parameters], end[:, :parameters])
            server = torch.cat([state.model, self._merge_buffers(server, end)])
            own = self.algorithm.restart(before, end)
            if own is not None:
                self.store.keep_own(plan.client[jobs], own)
        self.store.forget_own(refused)
        return state, server, refused

    def _merge_buffers(self, server: Vector, end: Stack) -> Vector:
        """Buffers are averaged as the algorithm says; of counters the largest wins."""
        first = self.layout.parameters
        last = first + self.layout.buffers
        if self.buffers == "local":
            return server[first:]
        averaged = self.algorithm.average(server[first:last], end[:, first:last])
        counters = torch.maximum(server[last:], end[:, last:].amax(dim=0))
        return torch.cat([averaged, counters])
