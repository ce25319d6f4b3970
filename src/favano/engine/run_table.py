"""The state of all runs that share lanes, as arrays with one entry per run.

Small networks leave the GPU idle while the host keeps its books, so state is kept in arrays that
NumPy handles for all runs at once, and not in one object per run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from favano.aggregation.aggregator import NO_INDICES, Aggregator
from favano.engine.client_models import ClientModels
from favano.engine.job_table import JobTable
from favano.engine.model_rows import ModelRows
from favano.methods import State
from favano.types import Ints, Vector


class NewVersions(NamedTuple):
    """Server versions of one run that were made at once."""

    run: int
    jobs: Ints  # whose client updates they use
    rows: Ints  # of the new server models, the newest last


class RunTable:
    """How far each run is, with the jobs and models of all runs.

    Args:
        aggregators: (R,) one per run; their models have one size.
    """

    def __init__(self, aggregators: Sequence[Aggregator[State]]) -> None:
        runs = len(aggregators)
        self.aggregators, self.layout = aggregators, aggregators[0].layout
        self.models = ModelRows(aggregators[0].initial)
        self.jobs = JobTable(runs)
        self.clients = ClientModels(self.models, [run.schedule.clients for run in aggregators])
        self.active = np.zeros(runs, dtype=np.bool_)
        self.version = np.full(runs, -1)
        self.server = np.full(runs, -1)  # row of the server model
        # Both follow from the timeline, and are kept since every round looks at all runs.
        self.next_jobs: list[Ints] = [NO_INDICES] * runs  # of the next update
        self.missing = np.zeros(runs, dtype=np.int64)  # unfinished jobs among them
        # Screening costs a look at every update, so it begins with the first that needs it.
        self.any_non_finite = False  # whether any client update of any run was not finite

    def server_model(self, run: int) -> Vector:
        """(size,) the newest server model of a run; a view."""
        return self.models.row(int(self.server[run]))

    def time(self, run: int) -> float:
        """When the newest version of a run was made."""
        version = self.aggregators[run].version
        return 0.0 if version < 0 else self.aggregators[run].timeline.time(version)

    def add_jobs(self, run: int) -> None:
        """Add the jobs of a run that its timeline has got since the last call."""
        self.jobs.add(run, self.aggregators[run], int(self.clients.first[run]))

    def advance(self, new: Sequence[NewVersions], refused: Mapping[int, Ints]) -> None:
        """Replace server models, and free what these updates alone needed.

        Args:
            new: of each run at most one.
            refused: clients of a run whose updates were not used.
        """
        jobs = np.concatenate([versions.jobs for versions in new])
        runs = [versions.run for versions in new]
        table, before = self.jobs, self.server[runs]
        self.models.release(np.concatenate([table.start[jobs], table.end[jobs], before]))
        table.start[jobs] = table.end[jobs] = -1
        self.server[runs] = [versions.rows[-1] for versions in new]
        self.version[runs] = [self.aggregators[run].version for run in runs]
        for run in runs:
            if self.clients.changing(run):
                self.clients.advance(run, self.time(run))
            if self.aggregators[run].clock is not None:
                self.add_jobs(run)
        for run, clients in refused.items():
            self.clients.own[self.clients.first[run] + clients] = False

    def close(self, run: int) -> None:
        """End a run: free its models and forget its jobs."""
        start, end = (column[self.jobs.of(run)] for column in (self.jobs.start, self.jobs.end))
        self.models.release(np.concatenate([start[start >= 0], end[end >= 0], [self.server[run]]]))
        self.clients.close(run)
        self.jobs.forget(run)
        self.active[run] = False
