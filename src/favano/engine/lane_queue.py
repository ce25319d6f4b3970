"""The queue of jobs for stacks of lanes: the device runs one while the host fills another."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import torch

from favano.engine.array_models import ArrayModels
from favano.engine.job_table import JobTable
from favano.engine.pool import AHEAD
from favano.engine.replay import NOBODY
from favano.training import LaneStack, LaunchResult, Work, wait_for_device
from favano.types import Ints

Mask = npt.NDArray[np.bool_]
StackFactory = Callable[[int], Sequence[LaneStack]]  # makes stacks of at most so many lanes

T = TypeVar("T")


class PendingLaunch(NamedTuple):
    """A launch whose result is not collected yet, and the jobs that it finishes."""

    stack: int
    jobs: Ints
    result: LaunchResult


class LaneQueue:
    """Jobs that are ready, in the lanes, or finished but not collected."""

    def __init__(
        self,
        table: JobTable,
        models: ArrayModels,
        is_open: Mask,  # (runs,) which runs are open; the engine changes it
        stacks: Sequence[LaneStack],
        fewer: StackFactory | None = None,
    ) -> None:
        self._table, self._models, self._open, self._fewer = table, models, is_open, fewer
        self._ready = NOBODY
        self._pending: deque[PendingLaunch] = deque()
        self._use(stacks)

    def _use(self, stacks: Sequence[LaneStack]) -> None:
        self._stacks = list(stacks)
        self._in_lane = [np.full(stack.capacity, -1) for stack in stacks]  # jobs; -1: none
        self.lanes = sum(stack.capacity for stack in stacks)

    @property
    def under_way(self) -> int:
        """Number of jobs that have started and are not yet collected."""
        pending = sum(len(launch.jobs) for launch in self._pending)
        return pending + sum(int((jobs >= 0).sum()) for jobs in self._in_lane)

    def add(self, jobs: Ints) -> None:
        """Add ready jobs."""
        self._ready = np.concatenate([self._ready, jobs])

    def forget(self, run: int) -> None:
        """Drop the ready jobs of this run."""
        self._ready = self._ready[self._table.run[self._ready] != run]

    def launch(self, kept: int) -> None:
        """Fill and launch each idle stack; `kept` end models already wait for their updates."""
        busy = {launch.stack for launch in self._pending}
        for number, stack in enumerate(self._stacks):
            if number not in busy:
                self._fill(number, kept)
                if len(stack.free) < stack.capacity:
                    result, in_lane = stack.launch(), self._in_lane[number]
                    self._pending.append(PendingLaunch(number, in_lane[result.lanes], result))
                    in_lane[result.lanes] = -1

    def oldest_launch(self) -> PendingLaunch | None:
        """Remove and return the oldest pending launch; None if there is none."""
        return self._pending.popleft() if self._pending else None

    def within_memory(self, act: Callable[[], T]) -> T:
        """Call `act`; if the device has too little memory, halve the lanes and call it again.

        A call that fails must have changed nothing but the lanes.
        """
        while True:
            try:
                return act()
            except torch.cuda.OutOfMemoryError:
                if self._fewer is None or self._most == 1:
                    raise
            self._halve(self._fewer)  # not in the handler: there the error still holds memory

    def _halve(self, fewer: StackFactory) -> None:
        """Halve the number of lanes; the jobs in them start again.

        Start models are kept until the update that uses the job, so only steps are lost, even if a
        launch failed in the middle.
        """
        capacity, jobs = self._most // 2, np.concatenate(self._in_lane)
        jobs = jobs[jobs >= 0]
        self.add(jobs[self._open[self._table.run[jobs]]])
        self._pending = deque(launch._replace(stack=-1) for launch in self._pending)
        wait_for_device()
        self._use([])
        torch.cuda.empty_cache()
        self._use(fewer(capacity))

    @property
    def _most(self) -> int:
        """Number of lanes of the largest stack."""
        return max(stack.capacity for stack in self._stacks)

    def _fill(self, number: int, kept: int) -> None:
        """Give the free lanes of a stack the ready jobs that are due first."""
        table, stack, jobs, later = self._table, self._stacks[number], self._ready, NOBODY
        free = stack.free
        room = len(free)
        if under_way := self.under_way:  # limit the look-ahead, unless all lanes are idle
            room = min(room, AHEAD * self.lanes - kept - under_way)
        if room <= 0 or not len(jobs):
            return
        if room < len(jobs):
            order = np.argpartition(table.due[jobs], room - 1)
            jobs, later = jobs[order[:room]], jobs[order[room:]]
        lanes = free[: len(jobs)]
        work = Work(table.who[jobs], table.first_step[jobs], table.steps[jobs], table.rate[jobs])
        models = self._models.rows.take(self._models.starts(jobs))
        stack.load(lanes, models, table.run[jobs], work)
        self._ready, self._in_lane[number][lanes] = later, jobs
