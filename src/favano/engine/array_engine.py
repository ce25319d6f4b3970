"""The engine for many runs on one GPU: jobs, models and updates of all runs are arrays.

It looks ahead as `pool` does, but has so many fast lanes that handling jobs one by one would take
longer than training them. A round fills the free lanes with the ready jobs that are due first,
launches, collects finished jobs, and makes all updates that have become complete, those of all runs
in one product. Runs that are due for evaluation are evaluated together. With two stacks of lanes,
the device works on one while the host handles the other (`lane_queue`). The methods must be linear
(see `aggregation`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from favano.engine.aggregation import (
    UNCHANGED,
    About,
    AggregationWeights,
    WeightCache,
    new_own,
    new_servers,
    without,
)
from favano.engine.array_models import ArrayModels
from favano.engine.job_table import job_table, ranges
from favano.engine.lane_queue import LaneQueue, PendingLaunch, StackFactory
from favano.engine.pool import Step
from favano.engine.replay import NOBODY, Moment, Replay
from favano.engine.scoring import UNSCORED, Scoring
from favano.errors import NonFiniteUpdate
from favano.methods import State
from favano.training import LaneStack, product_precision
from favano.types import Ints, Stack

_NUMBERS_AT_ONCE = 1 << 29  # numbers in the models of one product


class ArrayEngine:
    """State of all runs: ready jobs, models of the clients, end models for the next updates.

    Args:
        replays: the runs.
        stacks: the lanes.
        scoring: evaluates the moments before they are returned.
        rows: number of models to reserve memory for.
        fewer: makes stacks of fewer lanes if memory is short.
    """

    def __init__(
        self,
        replays: Sequence[Replay[State]],
        stacks: Sequence[LaneStack],
        *,
        scoring: Scoring = UNSCORED,
        rows: int = 64,
        fewer: StackFactory | None = None,
    ) -> None:
        self._replays, self._scoring = replays, scoring
        self._table = table = job_table(replays)
        self._layout = replays[0].layout
        self._models = ArrayModels(table, replays[0].moment.server, self._layout.parameters)
        self._models.rows.reserve(rows)
        self._states = [replay.state for replay in replays]
        buffers = self._layout.buffers > 0
        self._weight_caches = [WeightCache(one.method, with_buffers=buffers) for one in replays]
        self._next = table.first_update[:-1].copy()  # the next update of each run
        self._open = np.zeros(len(replays), dtype=np.bool_)
        self._queue = LaneQueue(table, self._models, self._open, stacks, fewer)
        self._missing = np.append(table.answers, 1)  # unfinished jobs of each update
        self._end = np.full(len(table.run), -1)  # rows of the jobs' end models
        self._finite = np.ones(len(table.run), dtype=np.bool_)
        self._poisoned = False  # whether any end model was not finite
        self._kept = 0  # end models that wait for their update
        # By run: state and weights of its next update.
        self._weights: dict[int, tuple[State, AggregationWeights]] = {}

    def steps(self, *, at_once: int) -> Iterator[Step]:
        """The moments of all runs, each run's in order; `at_once` runs are open at a time.

        The model of a moment is a view, which may be overwritten before the next moment.
        """
        waiting = np.arange(len(self._replays))
        while True:
            room = max(0, at_once - int(self._open.sum()))
            begin, waiting = waiting[:room], waiting[room:]
            if len(begin):
                yield from self._begin(begin)
                continue
            if not self._open.any():
                return
            yield from self._apply()
            self._queue.within_memory(partial(self._queue.launch, self._kept))
            self._prepare()  # while the device is busy
            if (launch := self._queue.oldest_launch()) is not None:
                self._take_in(launch)

    @property
    def kept(self) -> int:
        """Number of models in memory."""
        return self._models.rows.used

    def _begin(self, runs: Ints) -> Iterator[Step]:
        """Begin these runs."""
        self._queue.within_memory(lambda: self._models.rows.reserve(len(runs)))
        for run in runs.tolist():
            self._models.begin(run, self._replays[run].moment.server)
        self._open[runs] = True
        self._free(self._table.first_version[runs])
        yield from self._moments(runs, {})

    def _free(self, versions: Ints) -> None:
        """Jobs that start from these versions become ready; jobs without steps are finished."""
        table = self._table
        jobs = table.by_base[ranges(table.base_bounds[versions], table.base_bounds[versions + 1])]
        idle = table.steps[jobs] == 0
        self._end[jobs[idle]] = self._models.starts(jobs[idle])
        np.subtract.at(self._missing, table.visit[jobs[idle]], 1)
        self._queue.add(jobs[~idle])

    def _take_in(self, launch: PendingLaunch) -> None:
        """Keep the end models of the jobs that a launch finished; waits for the device."""
        jobs, ends = launch.jobs, launch.result.ends
        self._finite[jobs] = finite = launch.result.finite()
        self._poisoned |= not finite.all()
        wanted = self._open[self._table.run[jobs]]
        if not wanted.all():
            jobs, ends = jobs[wanted], ends[wanted.nonzero()]
        self._end[jobs] = self._queue.within_memory(partial(self._models.rows.keep, ends))
        self._kept += len(jobs)
        np.subtract.at(self._missing, self._table.visit[jobs], 1)

    def _prepare(self) -> None:
        """Find the weights of the next update of each run."""
        for run in np.flatnonzero(self._open).tolist():
            if run not in self._weights:
                self._weights[run] = self._weights_of(run, slice(*self._bounds(run)))

    def _bounds(self, run: int) -> list[int]:
        """First and last (exclusive) job of a run's next update."""
        update = self._next[run]
        bounds: list[int] = self._table.update_bounds[update : update + 2].tolist()
        return bounds

    def _answers(self, run: int) -> Ints:
        """The jobs of a run's next update."""
        return np.arange(*self._bounds(run))

    def _weights_of(self, run: int, jobs: slice | Ints) -> tuple[State, AggregationWeights]:
        """The weights of these answers in a run's next update, and the state after it."""
        table = self._table
        version = int(self._next[run] - table.first_update[run])
        about = About(
            table.who[jobs], table.steps[jobs], table.staleness[jobs], table.rate[jobs], version
        )
        if not len(about.client):
            return self._states[run], UNCHANGED
        return self._weight_caches[run](self._states[run], about)

    def _apply(self) -> Iterator[Step]:
        """Make all updates that are complete, until there are none."""
        while len(runs := np.flatnonzero(self._open & (self._missing[self._next] == 0))):
            refused = {run: self._refused(run) for run in runs.tolist()} if self._poisoned else {}
            for run, jobs in refused.items():
                if len(jobs) and self._replays[run].non_finite == "stop":
                    yield Step(run, self._failure(run, jobs))
                    self._close(run)
                elif len(jobs):  # use the other answers
                    answers = self._answers(run)
                    kept = self._finite[answers]
                    state, found = self._weights_of(run, answers[kept])
                    self._weights[run] = state, without(found, kept)
            runs = runs[self._open[runs]]
            self._prepare()
            for part in self._parts(runs):
                self._update(part)
            yield from self._moments(runs, refused)

    def _parts(self, runs: Ints) -> list[Ints]:
        """Groups of runs whose updates are made together; memory limits their size."""
        widest = 1 + 2 * int(self._table.answers[self._next[runs]].max(initial=0))
        at_once = max(1, _NUMBERS_AT_ONCE // (self._layout.size * widest))
        return [runs[first : first + at_once] for first in range(0, len(runs), at_once)]

    def _failure(self, run: int, refused: Ints) -> NonFiniteUpdate:
        clients = self._table.client[refused] - self._table.first_client[run]
        update = int(self._next[run] - self._table.first_update[run])
        return NonFiniteUpdate(clients.tolist(), update + 1)

    def _refused(self, run: int) -> Ints:
        """Answers of a run's next update that have NaN or infinity."""
        answers: Ints = self._answers(run)
        return answers[~self._finite[answers]]

    def _update(self, runs: Ints) -> None:
        """Make the next update of each of these runs."""
        table, models, updates = self._table, self._models, self._next[runs]
        jobs = ranges(table.update_bounds[updates], table.update_bounds[updates + 1])
        versions = self._newest(runs)
        found = [self._weights[run] for run in runs.tolist()]
        servers, own = self._queue.within_memory(partial(self._mixed, runs, jobs, found))
        for run, (state, _) in zip(runs.tolist(), found, strict=True):
            self._states[run] = state
            del self._weights[run]
        for rows, restarts in own:
            bounds = table.update_bounds[updates[rows]], table.update_bounds[updates[rows] + 1]
            models.keep_own(table.client[ranges(*bounds)], restarts)
        if self._poisoned:
            models.forget_own(table.client[jobs[~self._finite[jobs]]])
        trained = jobs[table.steps[jobs] > 0]  # the others ended where they started
        models.rows.give_back(self._end[trained])
        self._kept -= len(trained)
        models.put(versions + 1, servers)
        self._next[runs] += 1
        self._free(versions + 1)

    def _mixed(
        self, runs: Ints, jobs: Ints, found: Sequence[tuple[State, AggregationWeights]]
    ) -> tuple[Stack, list[tuple[Ints, Stack]]]:
        """New server models, and the models that clients continue from; changes no state."""
        weights = [one for _, one in found]
        inputs = self._models.rows.take(self._inputs(runs, jobs))  # (U, 1 + 2k, size)
        with product_precision("float32"):
            servers = new_servers(inputs, weights, self._layout)
            own = new_own(inputs, weights, self._layout)
        self._models.rows.reserve(len(servers) + sum(len(models) for _, models in own))
        return servers, own

    def _inputs(self, runs: Ints, jobs: Ints) -> Ints:
        """Rows of each update's [w_{t-1}, starts, ends], (U, 1 + 2k), padded with w_{t-1}."""
        answers = self._table.answers[self._next[runs]]
        server = self._models.versions(self._newest(runs))
        rows = np.repeat(server[:, None], 1 + 2 * int(answers.max(initial=0)), axis=1)
        update = np.repeat(np.arange(len(runs)), answers)
        place = 1 + np.arange(len(jobs)) - np.repeat(np.cumsum(answers) - answers, answers)
        rows[update, place] = self._models.starts(jobs)
        ends = np.where(self._finite[jobs], self._end[jobs], server[update])  # no refused ones
        rows[update, place + answers[update]] = ends
        return rows

    def _newest(self, runs: Ints) -> Ints:
        """The newest server version of each of these runs."""
        return self._table.first_version[runs] + self._next[runs] - self._table.first_update[runs]

    def _moments(self, runs: Ints, refused: dict[int, Ints]) -> Iterator[Step]:
        """The moments of these runs after an update, or at their beginning."""
        table, versions = self._table, self._newest(runs)
        rows = self._models.versions(versions)
        reached = (versions - table.first_version[runs] - 1).tolist()
        moments = []
        for run, version, row in zip(runs.tolist(), reached, rows.tolist(), strict=True):
            clients = table.who[refused[run]] if run in refused else NOBODY
            moments.append(Moment(version, self._models.rows.row(row), clients))
        if len(due := self._scoring.due_among(runs, moments)):
            measure = partial(self._scoring.measure, self._models, runs[due], rows[due])
            for place, one in zip(due.tolist(), self._queue.within_memory(measure), strict=True):
                moments[place] = moments[place]._replace(measured=one)
        for run, moment in zip(runs.tolist(), moments, strict=True):
            yield Step(run, moment)
            if self._next[run] == table.first_update[run + 1]:
                self._close(run)

    def _close(self, run: int) -> None:
        """End a run: free its models and drop its ready jobs."""
        self._open[run] = False
        self._weights.pop(run, None)
        self._models.close(run)
        self._queue.forget(run)
        waiting = np.arange(
            self._table.update_bounds[self._next[run]],
            self._table.update_bounds[self._table.first_update[run + 1]],
        )
        waiting = waiting[(self._end[waiting] >= 0) & (self._table.steps[waiting] > 0)]
        self._models.rows.give_back(self._end[waiting])
        self._kept -= len(waiting)
