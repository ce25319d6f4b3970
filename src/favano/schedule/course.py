"""The course of a run: a schedule known from the start, or one that grows with the run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from favano.schedule.lifetimes import lifetimes
from favano.schedule.schedule import Schedule
from favano.types import Ints


class Course(Protocol):
    """The schedule as far as it is known, and who holds which version.

    It is known at least up to the next update. The engine uses nothing else of a schedule, so it
    cannot tell whether more is known.
    """

    @property
    def schedule(self) -> Schedule:
        """All known updates and jobs."""

    @property
    def complete(self) -> bool:
        """Whether everything is known from the start, so that jobs may be trained ahead of time."""

    def jobs(self, version: int) -> Ints:
        """The jobs that update `version` uses, as rows of the schedule."""

    def go_on(self, steps: Ints | None) -> None:
        """The newest known update is made; `steps` are those of its clients' next jobs, if open."""

    def takers(self, version: int) -> Ints:
        """Clients that hold this version, the newest, from now on."""

    def unneeded(self, version: int) -> Sequence[int]:
        """Versions that nobody needs any more once this one, the newest, exists."""


class Foreseen:
    """A schedule that is known from the start, and with it the last use of every version."""

    complete = True

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self._jobs = schedule.offsets
        self.lives = lifetimes(schedule)

    def jobs(self, version: int) -> Ints:
        return np.arange(self._jobs[version], self._jobs[version + 1])

    def go_on(self, steps: Ints | None) -> None: ...

    def takers(self, version: int) -> Ints:
        return self.lives.takers[self.lives.taken[version] : self.lives.taken[version + 1]]

    def unneeded(self, version: int) -> Sequence[int]:
        first, last = self.lives.gone[version - 1 : version + 1] if version else (0, 0)
        gone: list[int] = self.lives.versions[first:last].tolist()
        return gone
