"""Lanes on a GPU: stacks take turns, so that the device runs one while the host fills another."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import torch

from favano.training.cuda_graphs import new_stream, on_stream, wait_for_device
from favano.training.lane_stack import LaneStack, LaunchResult
from favano.training.lanes import Finished, Work
from favano.types import Ints, Stack

StackFactory: TypeAlias = Callable[[int], Sequence[LaneStack]]  # of at most so many lanes each


class _Launch(NamedTuple):
    """A launch whose result is not collected yet, and the jobs that it finishes."""

    stack: int
    jobs: Ints
    result: LaunchResult


class StackLanes:
    """Lanes of several stacks; a stack that is launched takes no jobs until it is collected."""

    def __init__(self, stacks: Sequence[LaneStack], fewer: StackFactory | None = None) -> None:
        self._fewer = fewer
        self._launched: deque[_Launch] = deque()
        # Updates and evaluations do not wait for launches.
        self._stream = new_stream(stacks[0].device)
        self._use(stacks)

    def _use(self, stacks: Sequence[LaneStack]) -> None:
        self._stacks = list(stacks)
        self._in_lane = [np.full(stack.capacity, -1) for stack in stacks]  # jobs; -1: none
        self.capacity = sum(stack.capacity for stack in stacks)

    @property
    def free(self) -> int:
        """Free lanes of stacks that are not launched."""
        return sum(len(self._stacks[number].free) for number in self._idle)

    @property
    def _idle(self) -> list[int]:
        """Stacks that are not launched."""
        busy = {launch.stack for launch in self._launched}
        return [number for number in range(len(self._stacks)) if number not in busy]

    def load(self, jobs: Ints, models: Stack, task: Ints, work: Work) -> None:
        """Fill the stacks one after the other."""
        loaded, first = [], 0
        for number in self._idle:
            lanes = self._stacks[number].free[: len(jobs) - first]
            part = slice(first, first + len(lanes))
            if len(lanes):
                self._stacks[number].load(lanes, models[part], task[part], _part(work, part))
                loaded.append((number, lanes, part))
            first += len(lanes)
        for number, lanes, part in loaded:  # only now, so that nothing is noted if memory is short
            self._in_lane[number][lanes] = jobs[part]

    def launch(self) -> None:
        """Launch each idle stack that has jobs."""
        for number in self._idle:
            stack, in_lane = self._stacks[number], self._in_lane[number]
            if len(stack.free) < stack.capacity:
                with on_stream(self._stream):
                    result = stack.launch()
                self._launched.append(_Launch(number, in_lane[result.lanes], result))
                in_lane[result.lanes] = -1

    def collect(self) -> Finished | None:
        """The jobs that the oldest launch has finished."""
        if not self._launched:
            return None
        launch = self._launched.popleft()
        return Finished(launch.jobs, launch.result.ends, launch.result.finite())

    def halve(self) -> Ints:
        """Make stacks of half as many lanes.

        No lane is trusted after a launch that failed in the middle. Launches that succeeded can
        still be collected.
        """
        most = max(stack.capacity for stack in self._stacks)
        if self._fewer is None or most == 1:
            raise torch.cuda.OutOfMemoryError("no memory for one lane and the models of all runs")
        jobs = np.concatenate(self._in_lane)
        self._launched = deque(launch._replace(stack=-1) for launch in self._launched)
        wait_for_device()
        self._use([])
        torch.cuda.empty_cache()
        self._use(self._fewer(most // 2))
        return jobs[jobs >= 0]


def _part(work: Work, part: slice) -> Work:
    columns = {name: column[part] for name, column in vars(work).items() if column is not None}
    return Work(**columns)
