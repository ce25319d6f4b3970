"""Lanes on a GPU: launches are queued, so that the device is busy while the host refills lanes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import torch

from favano.training.cuda_graphs import EventClock, new_stream, on_stream, wait_for_device
from favano.training.lane_stack import LaneStack, LaunchResult
from favano.training.lanes import Finished, StepsDone, Work
from favano.types import Ints, Stack

StackFactory: TypeAlias = Callable[[int], LaneStack]  # with at most so many lanes

_QUEUED = 2  # launches: one runs, and the next begins without waiting for the host
_QUEUED_QUICK = 1  # if launches take the device no longer than the host: jobs begin sooner


class StackLanes:
    """The lanes of a stack. A lane takes a new job when the last one is collected."""

    def __init__(self, stack: LaneStack, fewer: StackFactory | None = None) -> None:
        self._fewer = fewer
        # Launches whose results are not collected yet, and the jobs that they finish.
        self._launched: deque[tuple[Ints, LaunchResult]] = deque()
        # Updates and evaluations do not wait for launches.
        self._stream = new_stream(stack.device)
        self._clock = EventClock(self._stream)
        self._use(stack)

    def _use(self, stack: LaneStack) -> None:
        self._stack, self.capacity = stack, stack.capacity
        self._in_lane = np.full(stack.capacity, -1)  # jobs; -1: none

    @property
    def free(self) -> int:
        """Lanes without a job."""
        return int((self._in_lane < 0).sum())

    def load(self, jobs: Ints, models: Stack, task: Ints, work: Work) -> None:
        """Fill free lanes, after the launches that are queued."""
        lanes = np.flatnonzero(self._in_lane < 0)[: len(jobs)]
        with on_stream(self._stream):
            self._stack.load(lanes, models, task, work)
        for given in (models, work.correction):
            if self._stream is not None and given is not None:
                given.record_stream(self._stream)
        self._in_lane[lanes] = jobs  # only now, so that nothing is noted if memory is short

    def launch(self) -> None:
        """Launch lanes that are at work, until enough launches are queued."""
        queued = _QUEUED_QUICK if self._stack.quick else _QUEUED
        while len(self._launched) < queued and len(self._stack.free) < self.capacity:
            with on_stream(self._stream):
                result = self._stack.launch()
            self._launched.append((self._in_lane[result.lanes], result))

    def collect(self) -> Finished | None:
        """The jobs that the oldest launch has finished."""
        if not self._launched:
            return None
        jobs, result = self._launched.popleft()
        self._in_lane[result.lanes] = -1
        finite = result.finite()
        # The launch may have ended long ago, while the host was busy.
        done = StepsDone(result.steps, self._clock.time(result.arrived))
        return Finished(jobs, result.ends, finite, done, result.losses())

    def halve(self) -> Ints:
        """Make a stack of half as many lanes.

        No lane is trusted after a launch that failed in the middle. Launches that succeeded can
        still be collected.
        """
        capacity, in_lane = self.capacity, self._in_lane
        if self._fewer is None or capacity == 1:
            raise torch.cuda.OutOfMemoryError("no memory for one lane and the models of all runs")
        for _, result in self._launched:
            in_lane[result.lanes] = -1
            result.lanes = result.lanes[:0]  # it had lanes of the old stack
        wait_for_device()
        del self._stack  # before the new one is made
        torch.cuda.empty_cache()
        self._use(self._fewer(capacity // 2))
        return in_lane[in_lane >= 0]
