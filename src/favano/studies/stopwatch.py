"""The time of runs: what passes before the first update, and the speed in the middle."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter, process_time
from typing import NamedTuple

from favano.training import StepsDone

_FEWEST = 4  # marks with a middle


class _Mark(NamedTuple):
    time: float
    steps: int  # local steps made by then


@dataclass
class BenchStopwatch:
    """A progress display for `run_together`, and `made` for its `on_steps`; make it just before.

    Times of updates are those at which it is told of them. Lanes say themselves when they made
    steps, since they do not wait while the host is busy, and work ahead of the updates.
    """

    clock: Callable[[], float] = perf_counter
    updates: list[float] = field(default_factory=list)  # times at which it was told of them
    marks: list[_Mark] = field(default_factory=list)  # by the lanes' clock
    cpu: float = 0.0  # CPU seconds of this process from the beginning to the last update

    def __post_init__(self) -> None:
        self._created = self._begun = self.clock()
        self._cpu_begun = process_time()

    def begin(self, steps: int) -> None:
        self._begun, self._cpu_begun = self.clock(), process_time()

    def made(self, made: StepsDone) -> None:
        """Lanes have made local steps."""
        if made.steps:
            self.marks.append(_Mark(made.at, self.steps + made.steps))

    def advance(self, label: str, steps: int, time: float) -> None:
        self.updates.append(self.clock())
        self.cpu = process_time() - self._cpu_begun

    def end(self) -> None: ...

    @property
    def steps(self) -> int:
        """All local steps."""
        return self.marks[-1].steps if self.marks else 0

    @property
    def start_up(self) -> float:
        """Seconds before the first update."""
        return self.updates[0] - self._created if self.updates else 0.0

    @property
    def seconds(self) -> float:
        """Seconds from the beginning to the last update."""
        return self.updates[-1] - self._begun if self.updates else 0.0

    @property
    def running(self) -> float:
        """Seconds from the first update to the last."""
        return self.updates[-1] - self.updates[0] if self.updates else 0.0

    @property
    def rate(self) -> float:
        """Local steps per second from the first update to the last step."""
        before = [mark for mark in self.marks if mark.time <= self.updates[0]]
        return self._speed(before[-1], self.marks[-1]) if before else 0.0

    @property
    def steady_rate(self) -> float:
        """Local steps per second in the middle half of the steps."""
        if not self.marks:
            return 0.0
        return self._speed(self._reached(0.25 * self.steps), self._reached(0.75 * self.steps))

    def _reached(self, steps: float) -> _Mark:
        return next(mark for mark in self.marks if mark.steps >= steps)

    def _speed(self, first: _Mark, last: _Mark) -> float:
        """Local steps per second between two marks.

        If a run is too short for that, its time starts at the beginning, which is too slow rather
        than too fast.
        """
        if first == last or len(self.marks) < _FEWEST:
            first, last = _Mark(self._begun, 0), self.marks[-1]
        return (last.steps - first.steps) / max(last.time - first.time, 1e-9)
