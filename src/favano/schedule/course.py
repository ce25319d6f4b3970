"""The course of a run: a schedule known from the start, or one that grows with the run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

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


@dataclass(frozen=True)
class Lifetimes:
    """Two lists of lists, each as one array and its bounds; -1 is not among the versions."""

    takers: Ints  # clients whose next job starts from a version, version by version
    taken: Ints  # (V+1,) those of version v are takers[taken[v]:taken[v+1]]
    versions: Ints  # (V,) versions in the order of their last use
    gone: Ints  # (V+2,) those that update u is the last to need are versions[gone[u]:gone[u+1]]


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


def lifetimes(schedule: Schedule) -> Lifetimes:
    """A version is needed while it is the newest, a client holds it, or a job started from it."""
    order = np.lexsort((schedule.first_step, schedule.begin, schedule.base))
    taken = np.searchsorted(schedule.base[order], np.arange(schedule.updates + 1))
    last = _last_use(schedule)
    versions = np.argsort(last, kind="stable")
    gone = np.searchsorted(last[versions], np.arange(schedule.updates + 2))
    return Lifetimes(schedule.client[order], taken, versions, gone)


def _last_use(schedule: Schedule) -> Ints:
    """For each version, the last update that needs it; V if it is needed at the end."""
    order = np.lexsort((schedule.first_step, schedule.begin, schedule.client))
    client, base, visit = schedule.client[order], schedule.base[order], schedule.visit[order]
    held_until = np.append(base[1:] - 1, schedule.updates)  # the client's next job replaces it
    held_until[np.append(client[1:] != client[:-1], True)] = schedule.updates
    needed = (visit < schedule.updates) | np.isinf(schedule.finish[order])  # used, or under way
    until = np.maximum(np.where(needed, visit, -1), held_until)
    last = np.arange(-1, schedule.updates)  # a version is the server's own until the next one
    np.maximum.at(last, base + 1, until)
    return last[1:]
