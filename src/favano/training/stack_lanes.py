"""A stack of lanes behind the interface of lanes that take one job at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence

from favano.training.cuda_graphs import wait_for_device
from favano.training.lane_stack import LaneStack
from favano.training.lanes import FinishedJob, Job, Work
from favano.types import Vector


class _Entry(NamedTuple):
    ticket: int
    start: Vector
    job: Job
    drift: Vector | None


class StackLanes:
    """Collects jobs, and loads them into the lanes together.

    If memory is short, `fewer` makes a stack of at most so many lanes.
    """

    def __init__(
        self, stack: LaneStack, fewer: Callable[[int], Sequence[LaneStack]] | None = None
    ) -> None:
        self.capacity = stack.capacity
        self._stack: LaneStack | None = stack
        self._fewer = fewer
        self._new: list[_Entry] = []
        self._in_lane: dict[int, _Entry] = {}

    def submit(self, ticket: int, start: Vector, job: Job, drift: Vector | None = None) -> None:
        """Add a job."""
        self._new.append(_Entry(ticket, start, job, drift))

    def collect(self) -> list[FinishedJob]:
        """Launch until a job is finished."""
        while True:
            try:
                return self._collect()
            except torch.cuda.OutOfMemoryError:
                if self._fewer is None or self.capacity == 1:
                    raise
            self._new = [*self._in_lane.values(), *self._new]  # they start again
            wait_for_device()
            self._in_lane, self._stack = {}, None
            torch.cuda.empty_cache()
            (self._stack,) = self._fewer(self.capacity // 2)
            self.capacity = self._stack.capacity

    def _collect(self) -> list[FinishedJob]:
        assert self._stack is not None
        self._load(self._stack)
        launched = self._stack.launch()
        finite = launched.finite().tolist()
        entries = [self._in_lane.pop(lane) for lane in launched.lanes.tolist()]
        done = zip(entries, launched.ends, finite, strict=True)
        return [
            FinishedJob(entry.ticket, end[: len(entry.start)], good) for entry, end, good in done
        ]

    def _load(self, stack: LaneStack) -> None:
        lanes = stack.free[: len(self._new)]
        if not len(lanes):
            return
        entries, self._new = self._new[: len(lanes)], self._new[len(lanes) :]
        self._in_lane.update(zip(lanes.tolist(), entries, strict=True))
        _, starts, jobs, drifts = zip(*entries, strict=True)
        task, client, first_step, steps = np.array([job[:4] for job in jobs]).T
        drift = None
        if any(one is not None for one in drifts):
            none = torch.zeros_like(next(one for one in drifts if one is not None))
            drift = torch.stack([none if one is None else one for one in drifts])
        work = Work(client, first_step, steps, np.array([job.rate for job in jobs]), drift)
        stack.load(lanes, pad_sequence(list(starts), batch_first=True), task, work)
