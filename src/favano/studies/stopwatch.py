"""The time of runs: what passes before the first update, and the speed in the middle."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter, process_time
from typing import NamedTuple

_FEWEST = 8  # moments with a middle


class _Mark(NamedTuple):
    time: float
    steps: int  # local steps made by then


@dataclass
class Stopwatch:
    """A progress display that notes how many steps runs have made; make it just before them."""

    clock: Callable[[], float] = perf_counter
    marks: list[_Mark] = field(default_factory=list)  # the beginning, then moments
    cpu: float = 0.0  # CPU seconds of this process from the beginning to the last update

    def __post_init__(self) -> None:
        self._made, self._cpu_begun = self.clock(), 0.0

    def begin(self, steps: int) -> None:
        self.marks, self._cpu_begun = [_Mark(self.clock(), 0)], process_time()

    def advance(self, label: str, steps: int, time: float) -> None:
        self.marks.append(_Mark(self.clock(), self.marks[-1].steps + steps))
        self.cpu = process_time() - self._cpu_begun

    def end(self) -> None: ...

    @property
    def moments(self) -> int:
        """How often it was told of updates."""
        return len(self.marks) - 1

    @property
    def steps(self) -> int:
        """All local steps."""
        return self.marks[-1].steps

    @property
    def start_up(self) -> float:
        """Seconds before the first update."""
        return self.marks[1].time - self._made if self.moments else 0.0

    @property
    def seconds(self) -> float:
        """Seconds from the beginning to the last update."""
        return self.marks[-1].time - self.marks[0].time

    @property
    def running(self) -> float:
        """Seconds from the first update to the last."""
        return self.marks[-1].time - self.marks[1].time if self.moments else 0.0

    @property
    def steady_rate(self) -> float:
        """Local steps per second in the middle half of the steps.

        Short runs have no middle: their time starts at the beginning, which is too slow rather
        than too fast.
        """
        first, last = (self._reached(share * self.steps) for share in (0.25, 0.75))
        if self.moments < _FEWEST or first == last:
            first, last = self.marks[0], self.marks[-1]
        return (last.steps - first.steps) / max(last.time - first.time, 1e-9)

    def _reached(self, steps: float) -> _Mark:
        return next(mark for mark in self.marks if mark.steps >= steps)
