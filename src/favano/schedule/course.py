"""What a run goes along: a schedule known from the start, or one that grows with the run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from favano.schedule.lifetimes import lifetimes
from favano.schedule.schedule import Schedule
from favano.types import Ints


class Course(Protocol):
    """The schedule as far as it is known, and who holds which version.

    It is known at least up to the next update. The engine asks nothing else of a schedule, so it
    cannot tell whether there is more behind it.
    """

    @property
    def schedule(self) -> Schedule:
        """All updates and jobs that are known."""

    @property
    def complete(self) -> bool:
        """Whether everything was known from the start, so that work may be done ahead of time."""

    def jobs(self, version: int) -> Ints:
        """The jobs that update `version` uses, as rows of the schedule."""

    def go_on(self, steps: Ints | None) -> None:
        """The newest known update is made; its clients' next jobs have so many steps, if open."""

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
        """The rows between two offsets."""
        return np.arange(self._jobs[version], self._jobs[version + 1])

    def go_on(self, steps: Ints | None) -> None:
        """Everything is planned already."""

    def takers(self, version: int) -> Ints:
        """Clients with a job that starts from this version."""
        return self.lives.takers_of(version)

    def unneeded(self, version: int) -> Sequence[int]:
        """Versions whose last use was the update before."""
        gone: list[int] = self.lives.gone_after(version - 1).tolist() if version else []
        return gone
