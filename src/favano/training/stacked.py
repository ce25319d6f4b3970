"""A stack of lanes for those who hand in one job at a time."""

from __future__ import annotations

import numpy as np
import torch

from favano.training.lanes import Done, Job
from favano.training.stack import LaneStack
from favano.training.work import Work
from favano.types import Vector


class StackedLanes:
    """Jobs are gathered until their results are asked for, then put into the lanes together."""

    def __init__(self, stack: LaneStack) -> None:
        self.capacity = stack.capacity
        self._stack = stack
        self._tickets = np.full(stack.capacity, -1, dtype=np.int64)
        self._new: list[tuple[int, Vector, Job]] = []

    def submit(self, ticket: int, start: Vector, job: Job) -> None:
        """Begin a job."""
        self._new.append((ticket, start, job))

    def collect(self) -> list[Done]:
        """Launch until a job is done."""
        if self._new:
            self._load()
        launched = self._stack.launch()
        tickets, finite = self._tickets[launched.lanes].tolist(), launched.finite().tolist()
        return [Done(*one) for one in zip(tickets, launched.ends, finite, strict=True)]

    def _load(self) -> None:
        tickets, starts, jobs = zip(*self._new, strict=True)
        lanes = self._stack.free[: len(jobs)]
        task, client, first_step, steps = np.array([job[:4] for job in jobs]).T
        work = Work(client, first_step, steps, np.array([job.rate for job in jobs]))
        self._stack.load(lanes, torch.stack(starts), task, work)
        self._tickets[lanes] = tickets
        self._new = []
