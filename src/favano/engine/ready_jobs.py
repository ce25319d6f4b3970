"""The jobs that can be trained, those that are due first in front."""

from __future__ import annotations

import numpy as np

from favano.engine.aggregator import NOBODY
from favano.engine.job_table import JobTable
from favano.types import Ints

_SORTED = 256  # jobs that are sorted at once, at least


class ReadyJobs:
    """A queue by due time. Only its front is sorted, since thousands of jobs become ready at once.

    Jobs behind the front are due after the last job in it.
    """

    def __init__(self, table: JobTable) -> None:
        self._table = table
        self._front, self._last = NOBODY, -np.inf  # sorted jobs, and when the last of them is due
        self._behind: list[Ints] = []

    def add(self, jobs: Ints) -> None:
        """Add jobs that can be trained."""
        due = self._table.due[jobs]
        soon = due < self._last
        if soon.any():
            self._sort(np.concatenate([self._front, jobs[soon]]))
            jobs = jobs[~soon]
        if len(jobs):
            self._behind.append(jobs)

    def first(self, count: int) -> Ints:
        """The jobs that are due first, at most `count`, in order; they stay in the queue."""
        if len(self._front) < count and self._behind:
            behind, size = np.concatenate(self._behind), max(_SORTED, 2 * count)
            later = NOBODY
            if len(behind) > size:
                order = np.argpartition(self._table.due[behind], size)
                behind, later = behind[order[:size]], behind[order[size:]]
            self._behind = [later] if len(later) else []
            self._sort(np.concatenate([self._front, behind]))
        return self._front[:count]

    def remove(self, count: int) -> None:
        """Remove the first jobs."""
        self._front = self._front[count:]

    def drop(self, run: int) -> None:
        """Remove all jobs of a run."""
        of = self._table.run
        self._front = self._front[of[self._front] != run]
        self._behind = [jobs[of[jobs] != run] for jobs in self._behind]

    def _sort(self, jobs: Ints) -> None:
        due = self._table.due[jobs]
        order = np.argsort(due, kind="stable")
        self._front, self._last = jobs[order], float(due[order[-1]])
