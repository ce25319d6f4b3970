"""Stacks of lanes that take turns: the device works on one while the host looks after another."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import torch

from favano.engine.holdings import Holdings
from favano.engine.jobs import JobTable
from favano.engine.pool import AHEAD
from favano.training import LaneStack, Launched, Work, wait_for_device
from favano.types import Ints

Mask = npt.NDArray[np.bool_]
Fewer = Callable[[int], Sequence[LaneStack]]  # as many stacks of so many lanes, or of fewer

_NOBODY: Ints = np.empty(0, dtype=np.int64)

T = TypeVar("T")


class Flight(NamedTuple):
    """A launch that nobody has waited for yet, and the jobs that are done after it."""

    stack: int
    jobs: Ints
    launched: Launched


class Turns:
    """The jobs that are ready, those in the lanes, and those on their way back."""

    def __init__(
        self,
        table: JobTable,
        models: Holdings,
        is_open: Mask,  # which runs are not over, now and later
        stacks: Sequence[LaneStack],
        fewer: Fewer | None = None,
    ) -> None:
        self._table, self._models, self._open, self._fewer = table, models, is_open, fewer
        self._ready = _NOBODY
        self._flights: deque[Flight] = deque()
        self._put_up(stacks)

    def _put_up(self, stacks: Sequence[LaneStack]) -> None:
        self._stacks = list(stacks)
        self._in_lane = [np.full(stack.capacity, -1) for stack in stacks]  # jobs that go on
        self.lanes = sum(stack.capacity for stack in stacks)

    @property
    def under_way(self) -> int:
        """Jobs that were begun and are not in yet."""
        flying = sum(len(flight.jobs) for flight in self._flights)
        return flying + sum(int((jobs >= 0).sum()) for jobs in self._in_lane)

    def add(self, jobs: Ints) -> None:
        """These may begin."""
        self._ready = np.concatenate([self._ready, jobs])

    def forget(self, run: int) -> None:
        """Nothing more of this run need begin."""
        self._ready = self._ready[self._table.run[self._ready] != run]

    def launch(self, kept: int) -> None:
        """Fill and launch every stack that is not at work; `kept` end models wait already."""
        busy = {flight.stack for flight in self._flights}
        for number, stack in enumerate(self._stacks):
            if number not in busy:
                self._fill(number, kept)
                if len(stack.free) < stack.capacity:
                    launched, in_lane = stack.launch(), self._in_lane[number]
                    self._flights.append(Flight(number, in_lane[launched.lanes], launched))
                    in_lane[launched.lanes] = -1

    def land(self) -> Flight | None:
        """The launch that was made first, to be waited for."""
        return self._flights.popleft() if self._flights else None

    def within_memory(self, act: Callable[[], T]) -> T:
        """What `act` gives. Where the device has no memory for it, half of the lanes make room.

        It is called again then: what fails must have changed nothing, or the lanes alone.
        """
        while True:
            try:
                return act()
            except torch.cuda.OutOfMemoryError:
                if self._fewer is None or self._most == 1:
                    raise
            self._halve(self._fewer)  # not above, where the failure still keeps its memory

    def _halve(self, fewer: Fewer) -> None:
        """Half as many lanes; what was in them begins anew.

        Start models are kept until the update that uses the job, so nothing is lost but the steps
        since, and a launch that failed half way through leaves nothing behind.
        """
        capacity, jobs = self._most // 2, np.concatenate(self._in_lane)
        jobs = jobs[jobs >= 0]
        self.add(jobs[self._open[self._table.run[jobs]]])
        self._flights = deque(flight._replace(stack=-1) for flight in self._flights)
        wait_for_device()
        self._put_up([])
        torch.cuda.empty_cache()
        self._put_up(fewer(capacity))

    @property
    def _most(self) -> int:
        """Lanes of the largest stack."""
        return max(stack.capacity for stack in self._stacks)

    def _fill(self, number: int, kept: int) -> None:
        """Give the free lanes of a stack the ready jobs that are due first."""
        table, stack, jobs, later = self._table, self._stacks[number], self._ready, _NOBODY
        free = stack.free
        room = len(free)
        if under_way := self.under_way:  # all that the next updates need is running: keep little
            room = min(room, AHEAD * self.lanes - kept - under_way)
        if room <= 0 or not len(jobs):
            return
        if room < len(jobs):
            order = np.argpartition(table.due[jobs], room - 1)
            jobs, later = jobs[order[:room]], jobs[order[room:]]
        lanes = free[: len(jobs)]
        work = Work(table.who[jobs], table.first_step[jobs], table.steps[jobs], table.rate[jobs])
        models = self._models.bank.take(self._models.starts(jobs))
        stack.load(lanes, models, table.run[jobs], work)
        self._ready, self._in_lane[number][lanes] = later, jobs
