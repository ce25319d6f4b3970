"""The jobs that can be trained, those that are due first in front."""

from __future__ import annotations

import numpy as np

from favano.aggregation.aggregator import NO_INDICES
from favano.engine.job_table import JobTable
from favano.types import Floats, Ints

_SORTED = 256  # jobs that are sorted at once, at least


class ReadyJobs:
    """A queue by due time. Only its front is sorted, since thousands of jobs become ready at once.

    Jobs behind the front are due after the last job in it.
    """

    def __init__(self, table: JobTable) -> None:
        self._table = table
        self._front, self._due = NO_INDICES, np.empty(0)  # sorted jobs, and when they are due
        self._behind: list[Ints] = []

    def add(self, jobs: Ints) -> None:
        """Add jobs that can be trained."""
        due = self._table.due[jobs]
        if len(self._due):
            soon = due < self._due[-1]
            self._merge(jobs[soon], due[soon])
            jobs = jobs[~soon]
        if len(jobs):
            self._behind.append(jobs)

    def first(self, count: int) -> Ints:
        """The jobs that are due first, at most `count`, in order; they stay in the queue."""
        if len(self._front) < count and self._behind:
            behind, size = np.concatenate(self._behind), max(_SORTED, 2 * count)
            due, self._behind = self._table.due[behind], []
            if len(behind) > size:
                order = np.argpartition(due, size)
                self._behind = [behind[order[size:]]]
                behind, due = behind[order[:size]], due[order[:size]]
            self._merge(behind, due)
        return self._front[:count]

    def remove(self, count: int) -> None:
        """Remove the first jobs."""
        self._front, self._due = self._front[count:], self._due[count:]

    def drop(self, jobs: Ints) -> None:
        """Remove these jobs."""
        kept = ~np.isin(self._front, jobs)
        self._front, self._due = self._front[kept], self._due[kept]
        self._behind = [behind[~np.isin(behind, jobs)] for behind in self._behind]

    def _merge(self, jobs: Ints, due: Floats) -> None:
        """Put jobs in their places in the front."""
        order = np.argsort(due, kind="stable")
        due = due[order]
        place = np.searchsorted(self._due, due, side="right")
        self._front = np.insert(self._front, place, jobs[order])
        self._due = np.insert(self._due, place, due)
