"""The engine: many runs on one set of lanes; a job is trained as soon as its start model exists.

The schedule is known in advance, so lanes need not wait for each update. A round fills the free
lanes with the ready jobs that are due first, over all runs, collects finished jobs, and makes all
updates that have become complete. So long jobs are trained beside short ones, and jobs of later
updates fill idle lanes. On a GPU, updates that are linear in the models are one product for all
runs (`products`); all others are made run by run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from favano.engine.aggregator import NOBODY, Aggregator, Measurement, Moment, Update
from favano.engine.holdings import HeldModels, Holdings
from favano.engine.job_table import JobTable
from favano.engine.link import first_versions
from favano.engine.model_rows import ModelRows
from favano.engine.products import About, ProductUpdates
from favano.engine.ready_jobs import ReadyJobs
from favano.errors import NonFiniteUpdate
from favano.methods import State
from favano.training import Lanes, Work, to_device
from favano.types import Ints, Mask, Stack, Vector

_NUMBERS_AT_ONCE = 1 << 29  # numbers in the models of one product
AHEAD = 4  # end models per lane that are kept for updates after the next one

T = TypeVar("T")


class Step(NamedTuple):
    """A moment of one of the runs, or the error that ended it."""

    run: int
    moment: Moment | NonFiniteUpdate


@dataclass(frozen=True)
class Scoring:
    """Evaluates several runs at once: says which moments are due, and scores many models."""

    due: Callable[[int, Moment], bool]  # the run and its moment
    score: Callable[[Stack], Tensor]  # (k, 2) loss and accuracy


class Engine:
    """State of all runs: jobs, models, who holds them, and how far each run is.

    Args:
        runs: the runs; models are of one size.
        lanes: train the jobs; the task of a job is the number of its run.
        products: make linear updates of all runs together; equal up to rounding.
        scoring: evaluates moments before they are returned, those of several runs together.
        rows: number of models to reserve memory for.
    """

    def __init__(
        self,
        runs: Sequence[Aggregator[State]],
        lanes: Lanes,
        *,
        products: bool = False,
        scoring: Scoring | None = None,
        rows: int = 0,
    ) -> None:
        self._runs, self._lanes, self._scoring = runs, lanes, scoring
        self._layout = runs[0].layout
        self._rows = ModelRows(runs[0].initial)
        self._rows.reserve(rows)
        self._table = JobTable(len(runs))
        self._ready = ReadyJobs(self._table)
        self._holdings = Holdings(self._rows, [run.schedule.clients for run in runs])
        self._longest = max(run.method.memory for run in runs) * self._layout.parameters
        self._special = np.array([not run.plain for run in runs])  # start with more than a model
        self._corrected = any(run.corrected for run in runs)
        self._ahead = np.array([run.ahead for run in runs])
        self._first_version = {
            number: first_versions(run.schedule) for number, run in enumerate(runs) if run.link
        }
        self._server = np.full(len(runs), -1)  # row of each run's server model
        self._version = np.full(len(runs), -1)
        self._open = np.zeros(len(runs), dtype=np.bool_)
        self._jobs: list[Ints] = [NOBODY] * len(runs)  # of each run's next update
        self._missing = np.zeros(len(runs), dtype=np.int64)  # unfinished jobs among them
        self._early = 0  # end models for updates after the next one
        self._under_way = 0  # jobs in the lanes
        self._poisoned = False  # whether any end model was not finite
        self._products = ProductUpdates(runs, self._rows) if products else None
        widest = 1 + 2 * max(run.schedule.clients for run in runs)
        self._at_once = max(1, _NUMBERS_AT_ONCE // (self._layout.size * widest))

    @property
    def kept(self) -> int:
        """Number of models in memory."""
        return self._rows.used

    def steps(self, *, at_once: int) -> Iterator[Step]:
        """The moments of all runs, each run's in order; `at_once` runs are open at a time.

        If a run fails, the others continue.
        """
        waiting = np.arange(len(self._runs))
        while True:
            room = max(0, at_once - int(self._open.sum()))
            begin, waiting = waiting[:room], waiting[room:]
            if len(begin):
                yield from self._begin(begin)
                continue
            if not self._open.any():
                return
            yield from self._apply()
            self._within_memory(self._launch)
            if self._products is not None:  # while the device is busy
                self._products.prepare(np.flatnonzero(self._open), self._about)
            self._collect()

    def _begin(self, runs: Ints) -> Iterator[Step]:
        """Begin these runs."""
        self._within_memory(lambda: self._rows.reserve(len(runs)))
        for run in runs.tolist():
            (self._server[run],) = self._rows.keep(self._runs[run].initial[None])
            self._holdings.open(run, int(self._server[run]))
        self._open[runs] = True
        self._hand_out(runs)
        yield from self._moments(runs, {})

    def _hand_out(self, runs: Ints) -> None:
        """Jobs begin from the newest versions of these runs."""
        table, holdings, begun, readings = self._table, self._holdings, [], []
        for run in runs.tolist():
            one = self._runs[run]
            if one.version < 0 or not one.course.complete:
                table.add(run, one, int(holdings.first[run]))
            begun.append(table.numbers(run, one.course.begun(one.version)))
            if one.link is not None:
                readings.append(self._reading(run, table.who[begun[-1]]))
        jobs = np.concatenate(begun)
        of, client = table.run[jobs], table.client[jobs]
        holdings.adopt(client, self._server[of], self._version[of])
        for reading in readings:
            holdings.read(*reading)
        used = np.isfinite(table.due[jobs])
        jobs, of, rows = jobs[used], of[used], holdings.row[client[used]]
        table.start[jobs] = rows
        self._rows.refer(rows)
        idle = table.steps[jobs] == 0
        if idle.any():  # these end where they start
            table.end[jobs[idle]] = rows[idle]
            self._rows.refer(rows[idle])
        self._ready.add(jobs[~idle & self._ahead[of]])
        self._find_next(runs)

    def _reading(self, run: int, clients: Ints) -> tuple[Ints, list[Vector]]:
        """How clients read a new version behind a codec, except their first model."""
        one, first = self._runs[run], int(self._holdings.first[run])
        assert one.link is not None
        reads = np.unique(clients[self._first_version[run][clients] < one.version])
        reads = reads[~self._holdings.has_own(first + reads)]
        last = [self._rows.row(row) for row in self._holdings.row[first + reads].tolist()]
        server = self._rows.row(int(self._server[run]))
        found = one.link.hand_out(one.version, server, reads.tolist(), last)
        return first + reads, [found[who] for who in reads.tolist()]

    def _find_next(self, runs: Ints) -> None:
        """Note the jobs of the next update of each of these runs."""
        table = self._table
        for run in runs.tolist():
            one = self._runs[run]
            if one.over:
                self._jobs[run] = NOBODY
                continue
            jobs = self._jobs[run] = table.numbers(run, one.course.jobs(one.version + 1))
            table.update[jobs] = one.version + 1
            missing = table.end[jobs] < 0
            self._missing[run] = missing.sum()
            self._early -= int((~missing & (table.steps[jobs] > 0)).sum())
            if not one.ahead:
                self._ready.add(jobs[missing])

    def _launch(self) -> None:
        """Fill the free lanes, and let them go on."""
        jobs = self._next_jobs(self._lanes.free)
        if len(jobs):
            table, of = self._table, self._table.run[jobs]
            place, steps, rate = table.first_step[jobs], table.steps[jobs], table.rate[jobs]
            work = Work(table.who[jobs], place, steps, rate)
            models = self._rows.take(table.start[jobs])
            if self._special[of].any():
                models, work = self._with_more(of, models, work)
            self._lanes.load(jobs, models, of, work)
            self._ready.remove(len(jobs))
            self._under_way += len(jobs)
        self._lanes.launch()

    def _next_jobs(self, free: int) -> Ints:
        """The ready jobs to begin: those of next updates, and not too many of later ones."""
        jobs = self._ready.first(free)
        if not len(jobs):
            return jobs
        later = self._table.update[jobs] != self._version[self._table.run[jobs]] + 1
        room = AHEAD * self._lanes.capacity - self._early - self._under_way
        blocked = later & (np.cumsum(later) > room)
        if not blocked.any() or (blocked[0] and not self._under_way):
            return jobs
        return jobs[: int(np.argmax(blocked))]

    def _with_more(self, of: Ints, models: Stack, work: Work) -> tuple[Stack, Work]:
        """Start models with what belongs to some of the clients: memories, buffers, corrections."""
        starts = functional.pad(models, (0, self._longest))
        drift = models.new_zeros(len(models), self._layout.parameters) if self._corrected else None
        for run in np.unique(of[self._special[of]]).tolist():
            one, mine = self._runs[run], np.flatnonzero(of == run)
            client, at = work.client[mine], to_device(mine, models)
            begun = one.starts(client, models[at])
            starts[at, : begun.shape[1]] = begun
            correction = one.drift(client)
            if drift is not None and correction is not None:
                drift[at] = correction
        return starts, replace(work, drift=drift)

    def _collect(self) -> None:
        """Keep the end models of finished jobs; waits for the lanes."""
        table, finished = self._table, self._lanes.collect()
        if finished is None:
            return
        jobs, ends, finite = finished
        self._under_way -= len(jobs)
        table.finite[jobs] = finite
        self._poisoned |= not finite.all()
        of = table.run[jobs]
        wanted = self._open[of]
        if not wanted.all():
            jobs, of, finite = jobs[wanted], of[wanted], finite[wanted]
            ends = ends[to_device(np.flatnonzero(wanted), ends)]
        if self._longest:
            ends = self._remembered(jobs, ends, finite)
        table.end[jobs] = self._within_memory(partial(self._rows.keep, ends))
        now = table.update[jobs] == self._version[of] + 1
        np.subtract.at(self._missing, of[now], 1)
        self._early += len(jobs) - int(now.sum())

    def _remembered(self, jobs: Ints, ends: Stack, finite: Mask) -> Stack:
        """End models without the memories, which the runs keep."""
        of, who, size = self._table.run[jobs], self._table.who[jobs], self._layout.size
        for run in np.unique(of).tolist():
            one, at = self._runs[run], np.flatnonzero(of == run)
            if one.method.memory:
                width = size + one.method.memory * self._layout.parameters
                one.remember(who[at], ends[to_device(at, ends), :width], finite[at])
        return ends[:, :size]

    def _apply(self) -> Iterator[Step]:
        """Make all updates that are complete, until there are none."""
        while len(runs := np.flatnonzero(self._open & (self._missing == 0))):
            refused: dict[int, Ints] = {}
            if self._poisoned:
                yield from self._refuse(runs, refused)
                runs = runs[self._open[runs]]
            together = NOBODY
            if self._products is not None:
                together = runs[self._products.takes[runs]]
            for first in range(0, len(together), self._at_once):
                self._update_together(together[first : first + self._at_once])
            for run in np.setdiff1d(runs, together).tolist():
                self._update_one(run)
            self._renew(runs, refused)
            yield from self._moments(runs, refused)

    def _refuse(self, runs: Ints, refused: dict[int, Ints]) -> Iterator[Step]:
        """Find answers that must not be used; some runs end with them."""
        for run in runs.tolist():
            one, finite = self._runs[run], self._table.finite[self._jobs[run]]
            try:
                refused[run] = one.refuse(one.course.jobs(one.version + 1), finite)
            except NonFiniteUpdate as error:
                yield Step(run, error)
                self._close(run)
                continue
            if self._products is not None and self._products.takes[run] and not finite.all():
                self._products.refuse(run, self._about(run, finite), finite)

    def _update_one(self, run: int) -> None:
        """Make the next update of one run."""
        table, jobs, rows = self._table, self._jobs[run], self._rows
        server, one = rows.row(int(self._server[run])), self._runs[run]

        def made() -> Update:
            rows.reserve(1 + len(jobs))
            start, end = rows.take(table.start[jobs]), rows.take(table.end[jobs])
            return one.update(server, start, end, table.finite[jobs])

        update = self._within_memory(made)
        if update.own is not None:
            self._holdings.keep_own(self._holdings.first[run] + update.clients, update.own)
        self._new_servers(np.array([run]), update.server[None])

    def _update_together(self, runs: Ints) -> None:
        """Make the next update of each of these runs by one product."""
        assert self._products is not None
        self._products.prepare(runs, self._about)
        rows, holdings = self._answer_rows(runs), self._holdings
        servers, own = self._within_memory(partial(self._products.mixed, runs, rows))
        for run in runs.tolist():
            self._products.finish(run)
        for places, models in own:
            clients = [self._table.client[self._jobs[run]] for run in runs[places].tolist()]
            holdings.keep_own(np.concatenate(clients), models)
        self._new_servers(runs, servers)

    def _answer_rows(self, runs: Ints) -> Ints:
        """Rows of each update's [w_{t-1}, starts, ends], (U, 1 + 2k), padded with w_{t-1}."""
        table, lists = self._table, [self._jobs[run] for run in runs.tolist()]
        jobs, answers = np.concatenate(lists), np.array([len(one) for one in lists])
        server = self._server[runs]
        rows = np.repeat(server[:, None], 1 + 2 * int(answers.max()), axis=1)
        update = np.repeat(np.arange(len(runs)), answers)
        place = 1 + np.arange(len(jobs)) - np.repeat(np.cumsum(answers) - answers, answers)
        rows[update, place] = table.start[jobs]
        ends = np.where(table.finite[jobs], table.end[jobs], server[update])  # no refused ones
        rows[update, place + answers[update]] = ends
        return rows

    def _about(self, run: int, kept: Mask | None = None) -> About:
        """The answers of a run's next update, or some of them, without their models."""
        table, jobs = self._table, self._jobs[run] if kept is None else self._jobs[run][kept]
        version = int(self._version[run])
        stale = version - table.base[jobs]
        return About(table.who[jobs], table.steps[jobs], stale, table.rate[jobs], version + 1)

    def _new_servers(self, runs: Ints, models: Stack) -> None:
        """These runs have new server models."""
        before = self._server[runs]
        self._server[runs] = self._rows.keep(models)
        self._rows.release(before)

    def _renew(self, runs: Ints, refused: dict[int, Ints]) -> None:
        """Drop what the updates have used, and let new jobs begin."""
        table, jobs = self._table, np.concatenate([self._jobs[run] for run in runs.tolist()])
        self._rows.release(np.concatenate([table.start[jobs], table.end[jobs]]))
        table.start[jobs] = table.end[jobs] = -1
        for run, clients in refused.items():
            self._holdings.forget_own(self._holdings.first[run] + clients)
        self._version[runs] = [self._runs[run].version for run in runs.tolist()]
        self._hand_out(runs)

    def _moments(self, runs: Ints, refused: dict[int, Ints]) -> Iterator[Step]:
        """The moments of these runs after an update, or at their beginning."""
        moments = [self._moment(run, refused.get(run, NOBODY)) for run in runs.tolist()]
        for place, measured in self._measured(runs, moments):
            moments[place] = moments[place]._replace(measured=measured)
        for run, moment in zip(runs.tolist(), moments, strict=True):
            yield Step(run, moment)
            if self._runs[run].over:
                self._close(run)

    def _moment(self, run: int, refused: Ints) -> Moment:
        held = HeldModels(self._holdings, run, self._layout.parameters)
        server = self._rows.row(int(self._server[run]))
        return Moment(self._runs[run].version, server, refused, held)

    def _measured(self, runs: Ints, moments: Sequence[Moment]) -> Iterator[tuple[int, Measurement]]:
        """The measurements of runs that are evaluated together, by place."""
        scoring = self._scoring
        if scoring is None:
            return
        pairs = zip(runs.tolist(), moments, strict=True)
        due = np.flatnonzero([scoring.due(run, moment) for run, moment in pairs])
        if not len(due):
            return

        def measure() -> list[Measurement]:
            servers = self._rows.take(self._server[runs[due]])
            spreads = self._holdings.spreads(runs[due], servers, self._layout.parameters)
            numbers = torch.cat([scoring.score(servers), spreads[0]], dim=1)
            return [Measurement(*one) for one in zip(numbers, servers, spreads[1], strict=True)]

        yield from zip(due.tolist(), self._within_memory(measure), strict=True)

    def _close(self, run: int) -> None:
        """End a run: free its models and drop its ready jobs."""
        table, jobs = self._table, self._table.of(run)
        start, end = table.start[jobs], table.end[jobs]
        early = table.update[jobs] != self._version[run] + 1
        self._early -= int((early & (end >= 0) & (table.steps[jobs] > 0)).sum())
        rows = np.concatenate([start[start >= 0], end[end >= 0], [self._server[run]]])
        self._rows.release(rows)
        self._holdings.close(run)
        self._ready.drop(run)
        table.forget(run)
        self._open[run] = False
        if self._products is not None:
            self._products.forget(run)

    def _within_memory(self, act: Callable[[], T]) -> T:
        """Call `act`; if the device has too little memory, halve the lanes and call it again.

        A call that fails must have changed nothing but the lanes. Start models are kept until the
        update that uses the job, so jobs that were in the lanes begin again.
        """
        while True:
            try:
                return act()
            except torch.cuda.OutOfMemoryError:
                pass
            jobs = self._lanes.halve()  # not in the handler: there the error still holds memory
            self._under_way -= len(jobs)
            self._ready.add(jobs[self._open[self._table.run[jobs]]])
