"""Many runs on one GPU: jobs, models and updates of all of them as arrays.

The same look-ahead as in `pool`, for lanes so many and so fast that looking at each job by itself
would cost more than its training. A round fills the free lanes with the ready jobs that are due
first, launches, takes in what is done, and makes the updates that have become complete, those of
all runs in one product. With two stacks of lanes the device works on one while the host looks
after the other. The methods must be linear (see `blend`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

import numpy as np

from favano.algorithms.base import State, Visit
from favano.engine.blend import UNCHANGED, Blend, blend, new_own, new_servers, without
from favano.engine.holdings import Holdings
from favano.engine.jobs import job_table, ranges
from favano.engine.pool import Step
from favano.engine.replay import Moment, Replay
from favano.engine.spread import Spread
from favano.errors import NonFiniteUpdate
from favano.training import LaneStack, Launched, Work, numbers
from favano.types import Ints, Vector

_AHEAD = 4  # end models kept for later updates, for each lane
_NUMBERS_AT_ONCE = 1 << 29  # of the models that go into one product

_NOBODY: Ints = np.empty(0, dtype=np.int64)


class Waves:
    """All runs, what is ready in them, and what the lanes are doing."""

    def __init__(self, replays: Sequence[Replay[State]], stacks: Sequence[LaneStack]) -> None:
        self._replays, self._stacks = replays, stacks
        self._table = table = job_table(replays)
        self._layout = replays[0].layout
        self._models = Holdings(table, replays[0].moment.server, self._layout.parameters)
        self._states = [replay.state for replay in replays]
        self._next = table.first_update[:-1].copy()  # the update that each run waits for
        self._open = np.zeros(len(replays), dtype=np.bool_)
        self._missing = np.append(table.answers, 1)  # of each update: jobs that are not in
        self._end = np.full(len(table.run), -1)  # rows of the jobs' end models
        self._finite = np.ones(len(table.run), dtype=np.bool_)
        self._poisoned = False  # whether any end model was not
        self._ready = _NOBODY
        self._in_lane = [np.full(stack.capacity, -1) for stack in stacks]
        self._lanes = sum(stack.capacity for stack in stacks)
        self._under_way = 0
        self._kept = 0  # end models that wait for their update
        self._blends: dict[int, tuple[State, Blend]] = {}  # of runs: their next update's

    def steps(self, *, at_once: int) -> Iterator[Step]:
        """The moments of all runs, each run's in order; `at_once` runs are open at a time.

        The model of a moment is a view: it may be another's once the next moment is asked for.
        """
        waiting = iter(range(len(self._replays)))
        launched: deque[tuple[int, Launched]] = deque()  # by stack, the earliest first
        while True:
            while self._open.sum() < at_once and (run := next(waiting, None)) is not None:
                yield from self._begin(run)
            if not self._open.any():
                return
            yield from self._apply()
            for number, stack in enumerate(self._stacks):
                if all(number != other for other, _ in launched):
                    self._fill(number)
                    if len(stack.free) < stack.capacity:
                        launched.append((number, stack.launch()))
            self._prepare()  # while the device is at work
            if launched:
                self._take_in(*launched.popleft())

    @property
    def kept(self) -> int:
        """Models in memory."""
        return self._models.bank.used

    def spread(self, run: int, server: Vector, time: float) -> Spread:
        """How far the models of a run's clients are from its server model, now."""
        return self._models.spread(run, server)

    def _begin(self, run: int) -> Iterator[Step]:
        """A run joins."""
        moment = self._replays[run].moment
        self._open[run] = True
        self._models.begin(run, moment.server)
        yield Step(run, moment)
        self._free(self._table.first_version[run : run + 1])
        self._close_if_over(run)

    def _free(self, versions: Ints) -> None:
        """Jobs that start from these versions may begin; those without a step are done."""
        table = self._table
        jobs = table.by_base[ranges(table.base_bounds[versions], table.base_bounds[versions + 1])]
        idle = table.steps[jobs] == 0
        self._end[jobs[idle]] = self._models.starts(jobs[idle])
        np.subtract.at(self._missing, table.visit[jobs[idle]], 1)
        self._ready = np.concatenate([self._ready, jobs[~idle]])

    def _fill(self, number: int) -> None:
        """Give the free lanes of a stack the ready jobs that are due first."""
        table, stack = self._table, self._stacks[number]
        free = stack.free
        room = len(free)
        if self._under_way:  # all that the next updates need is running: keep little for later
            room = min(room, _AHEAD * self._lanes - self._kept - self._under_way)
        if room <= 0 or not len(self._ready):
            return
        jobs, self._ready = self._ready, _NOBODY
        if room < len(jobs):
            order = np.argpartition(table.due[jobs], room - 1)
            jobs, self._ready = jobs[order[:room]], jobs[order[room:]]
        run, lanes = table.run[jobs], free[: len(jobs)]
        client = table.client[jobs] - table.first_client[run]
        work = Work(client, table.first_step[jobs], table.steps[jobs], table.rate[jobs])
        stack.load(lanes, self._models.bank.take(self._models.starts(jobs)), run, work)
        self._in_lane[number][lanes] = jobs
        self._under_way += len(jobs)

    def _take_in(self, number: int, launched: Launched) -> None:
        """Put the end models of finished lanes into the bank."""
        jobs = self._in_lane[number][launched.lanes]
        self._under_way -= len(jobs)
        self._finite[jobs] = finite = launched.finite()
        self._poisoned |= not finite.all()
        wanted = self._open[self._table.run[jobs]]
        jobs, ends = jobs[wanted], launched.ends
        self._end[jobs] = self._models.bank.keep(ends if wanted.all() else ends[wanted.nonzero()])
        self._kept += len(jobs)
        np.subtract.at(self._missing, self._table.visit[jobs], 1)

    def _prepare(self) -> None:
        """Have the weights of the next update of every run."""
        for run in np.flatnonzero(self._open).tolist():
            if run not in self._blends:
                self._blends[run] = self._blend(run, self._answers(run))

    def _answers(self, run: int) -> Ints:
        """The jobs of a run's next update."""
        first, last = self._table.update_bounds[self._next[run] : self._next[run] + 2]
        return np.arange(first, last)

    def _blend(self, run: int, jobs: Ints) -> tuple[State, Blend]:
        """The weights of these answers in a run's next update, and the state after it."""
        if not len(jobs):
            return self._states[run], UNCHANGED
        table = self._table
        client = table.client[jobs] - table.first_client[run]
        newest = self._newest(np.array([run]))
        version = int(self._next[run] - table.first_update[run])
        staleness, rate = newest - table.base[jobs], table.rate[jobs]
        visit = Visit(client, table.steps[jobs], staleness, rate, version)
        method, state = self._replays[run].algorithm, self._states[run]
        return blend(method, state, visit, with_buffers=self._layout.buffers > 0)

    def _apply(self) -> Iterator[Step]:
        """Make all updates that are complete, for as long as there are any."""
        while len(runs := self._due()):
            refused = {run: self._refused(run) for run in runs.tolist()} if self._poisoned else {}
            for run, jobs in refused.items():
                if len(jobs) and self._replays[run].non_finite == "stop":
                    yield Step(run, self._failure(run, jobs))
                    self._close(run)
                elif len(jobs):  # make do with the other answers
                    answers = self._answers(run)
                    kept = self._finite[answers]
                    state, found = self._blend(run, answers[kept])
                    self._blends[run] = state, without(found, kept)
            runs = runs[self._open[runs]]
            self._prepare()
            for part in self._parts(runs):
                self._update(part)
            yield from self._moments(runs, refused)

    def _parts(self, runs: Ints) -> list[Ints]:
        """Runs whose updates are made together: as many as memory allows."""
        widest = 1 + 2 * int(self._table.answers[self._next[runs]].max(initial=0))
        at_once = max(1, _NUMBERS_AT_ONCE // (self._layout.size * widest))
        return [runs[first : first + at_once] for first in range(0, len(runs), at_once)]

    def _failure(self, run: int, refused: Ints) -> NonFiniteUpdate:
        clients = self._table.client[refused] - self._table.first_client[run]
        update = int(self._next[run] - self._table.first_update[run])
        return NonFiniteUpdate(clients.tolist(), update + 1)

    def _due(self) -> Ints:
        """Open runs whose next update is complete."""
        complete = self._missing[self._next] == 0
        return np.flatnonzero(self._open & complete)

    def _refused(self, run: int) -> Ints:
        """Answers to a run's next update that hold NaN or infinity."""
        answers: Ints = self._answers(run)
        return answers[~self._finite[answers]]

    def _update(self, runs: Ints) -> None:
        """The next update of each of these runs."""
        table, models, updates = self._table, self._models, self._next[runs]
        jobs = ranges(table.update_bounds[updates], table.update_bounds[updates + 1])
        versions = self._newest(runs)
        blends = []
        for run in runs.tolist():
            self._states[run], found = self._blends.pop(run)
            blends.append(found)
        inputs = models.bank.take(self._inputs(runs, jobs))  # (U, 1 + 2k, size)
        with numbers("float32"):
            servers, own = new_servers(inputs, blends, self._layout), new_own(inputs, blends)
        if own is not None:
            keeps = np.repeat([found.own is not None for found in blends], table.answers[updates])
            models.keep_own(table.client[jobs[keeps]], own)
        models.forget_own(table.client[jobs[~self._finite[jobs]]])
        trained = jobs[table.steps[jobs] > 0]  # the others ended where they started
        models.bank.give_back(self._end[trained])
        self._kept -= len(trained)
        models.put(versions + 1, servers)
        self._next[runs] += 1
        self._free(versions + 1)

    def _inputs(self, runs: Ints, jobs: Ints) -> Ints:
        """Rows of each update's [w_{t-1}, starts, ends], (U, 1 + 2k), filled up with w_{t-1}."""
        answers = self._table.answers[self._next[runs]]
        server = self._models.versions(self._newest(runs))
        rows = np.repeat(server[:, None], 1 + 2 * int(answers.max(initial=0)), axis=1)
        update = np.repeat(np.arange(len(runs)), answers)
        place = 1 + np.arange(len(jobs)) - np.repeat(np.cumsum(answers) - answers, answers)
        rows[update, place] = self._models.starts(jobs)
        ends = np.where(self._finite[jobs], self._end[jobs], server[update])  # nothing refused
        rows[update, place + answers[update]] = ends
        return rows

    def _newest(self, runs: Ints) -> Ints:
        """The version of the server model that each of these runs has reached."""
        return self._table.first_version[runs] + self._next[runs] - self._table.first_update[runs]

    def _moments(self, runs: Ints, refused: dict[int, Ints]) -> Iterator[Step]:
        """These runs right after an update."""
        table, versions = self._table, self._newest(runs)
        rows = self._models.versions(versions).tolist()
        numbers = (versions - table.first_version[runs] - 1).tolist()
        for run, number, row in zip(runs.tolist(), numbers, rows, strict=True):
            clients = _NOBODY
            if run in refused:
                clients = table.client[refused[run]] - table.first_client[run]
            yield Step(run, Moment(number, self._models.bank.rows[row], clients))
            self._close_if_over(run)

    def _close_if_over(self, run: int) -> None:
        if self._next[run] == self._table.first_update[run + 1]:
            self._close(run)

    def _close(self, run: int) -> None:
        """A run is over: forget its models and what is ready in it."""
        self._open[run] = False
        self._blends.pop(run, None)
        self._models.close(run)
        self._ready = self._ready[self._table.run[self._ready] != run]
        waiting = np.arange(
            self._table.update_bounds[self._next[run]],
            self._table.update_bounds[self._table.first_update[run + 1]],
        )
        waiting = waiting[(self._end[waiting] >= 0) & (self._table.steps[waiting] > 0)]
        self._models.bank.give_back(self._end[waiting])
        self._kept -= len(waiting)
