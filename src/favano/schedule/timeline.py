"""The timeline of a run: a schedule known from the start, or one that grows with the run."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from favano.schedule.schedule import Schedule
from favano.types import Floats, Ints


class Timeline(Protocol):
    """The schedule as far as it is known: at least up to the next update.

    The engine uses nothing else of a schedule, so it cannot tell whether more is known. Jobs have
    numbers that never change.
    """

    @property
    def schedule(self) -> Schedule:
        """All known updates and jobs."""

    @property
    def known(self) -> Schedule:
        """The same with the jobs in the order of their numbers."""

    @property
    def due(self) -> Floats:
        """(J,) when the client update of each job is due; infinity if no update uses it."""

    @property
    def complete(self) -> bool:
        """Whether everything is known from the start."""

    @property
    def updates(self) -> int:
        """Number of updates that are known."""

    def time(self, update: int) -> float:
        """When an update is made; it must be known."""

    def jobs(self, update: int) -> Ints:
        """Numbers of the jobs that an update uses; it must be known."""

    def begun(self, version: int) -> Ints:
        """Numbers of the jobs that begin from this version, once its update is made."""

    def extend(self, steps: Ints | None) -> None:
        """The newest known update is made; `steps` are those of its clients' next jobs, if open."""


class PlannedTimeline:
    """A schedule that is known from the start; the numbers of jobs are rows of it."""

    complete = True

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = self.known = schedule
        self.updates = schedule.updates
        self.due = np.append(schedule.time, np.inf)[schedule.used_by]
        self._in_order, self._by_base = (
            np.arange(schedule.jobs),
            np.argsort(schedule.start_version, kind="stable"),
        )
        self._offsets: list[int] = schedule.offsets.tolist()
        versions = np.arange(-1, schedule.updates + 1)
        bounds = np.searchsorted(schedule.start_version[self._by_base], versions)
        self._bounds: list[int] = bounds.tolist()

    def time(self, update: int) -> float:
        return float(self.schedule.time[update])

    def jobs(self, update: int) -> Ints:
        return self._in_order[self._offsets[update] : self._offsets[update + 1]]

    def begun(self, version: int) -> Ints:
        return self._by_base[self._bounds[version + 1] : self._bounds[version + 2]]

    def extend(self, steps: Ints | None) -> None: ...
