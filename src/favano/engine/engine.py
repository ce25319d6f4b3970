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
from itertools import pairwise
from math import inf
from time import perf_counter
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from favano.aggregation.aggregator import NOBODY, Aggregator, Update
from favano.aggregation.snapshot import ResumePoint, Snapshot, Waiting
from favano.engine.client_models import ClientModels, ClientModelsOfRun, Jobs
from favano.engine.distances import inner_products, walk
from favano.engine.job_table import JobTable
from favano.engine.model_rows import ModelRows
from favano.engine.products import About, ProductUpdates, weighted
from favano.engine.ready_jobs import ReadyJobs
from favano.engine.server_version import Measurement, ServerVersion
from favano.errors import NonFiniteUpdate
from favano.methods import State
from favano.training import Lanes, StepsDone, Work, to_device
from favano.types import Floats, Ints, Stack, Vector

_NUMBERS_AT_ONCE = 1 << 29  # numbers in the models of one product
_LONGEST = 64  # updates of one run that are made at once
_PERIOD = 0.5  # seconds after which a run is told of, though nothing is due
AHEAD = 4  # end models per lane that are kept for updates after the next one

T = TypeVar("T")


class Step(NamedTuple):
    """A moment of one of the runs, or the error that ended it."""

    run: int
    event: ServerVersion | NonFiniteUpdate
    made: StepsDone  # by all runs since the last one, also in jobs that are not finished


@dataclass(frozen=True)
class Scoring:
    """Evaluates several runs at once."""

    due: Callable[[int, int], bool]  # whether a version of a run is evaluated
    together: Callable[[int, int], bool]  # and whether this may be done here, with other runs
    score: Callable[[Stack], Tensor]  # (k, 1 + m) loss and metrics
    time: Callable[[int], float] = lambda run: inf  # of a run's next evaluation


class _Made(NamedTuple):
    """Updates of one run that were made at once."""

    run: int
    last: int  # the newest version
    jobs: Ints  # that the updates have used
    rows: Ints  # of the new server models


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
        self._client_models = ClientModels(self._rows, [run.schedule.clients for run in runs])
        parameters = self._layout.parameters
        self._held = [
            ClientModelsOfRun(self._client_models, run, parameters) for run in range(len(runs))
        ]
        self._longest = max(run.memory for run in runs) * self._layout.parameters
        self._special = np.array([not run.plain for run in runs])  # start with more than a model
        self._corrected = any(run.corrected for run in runs)
        self._ahead = np.array([run.ahead for run in runs])
        self._server = np.full(len(runs), -1)  # row of each run's server model
        self._version = np.full(len(runs), -1)
        self._open = np.zeros(len(runs), dtype=np.bool_)
        self._jobs: list[Ints] = [NOBODY] * len(runs)  # of each run's next update
        self._missing = np.zeros(len(runs), dtype=np.int64)  # unfinished jobs among them
        self._pending: dict[int, Ints] = {}  # runs at a moment to be told, and whom it refuses
        self._reported = np.full(len(runs), -np.inf)  # when the last moment of each run was told
        self._steps = np.zeros(len(runs), dtype=np.int64)  # local steps since then
        self._made = StepsDone(0, perf_counter())  # local steps that were not told yet
        self._early = 0  # end models for updates after the next one
        self._under_way = 0  # jobs in the lanes
        self._poisoned = False  # whether any end model was not finite
        self._memories: dict[int, Vector] = {}  # of finished jobs
        self._products = ProductUpdates(runs, self._rows) if products else None
        widest = 1 + 2 * max(run.schedule.clients for run in runs)
        self._at_once = max(1, _NUMBERS_AT_ONCE // (self._layout.size * widest))

    @property
    def kept(self) -> int:
        """Number of models in memory."""
        return self._rows.used

    def steps(self, *, at_once: int) -> Iterator[Step]:
        """The moments of all runs, each run's in order; `at_once` runs are open at a time.

        With `scoring` not all of them: a run's first two, those at which something is due, and two
        per second. If a run fails, the others continue.
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
            yield from self._tell()  # while the lanes are busy
            if self._products is not None:
                for run in np.flatnonzero(self._open & self._products.takes).tolist():
                    self._products.prepare(run, self._about)
            self._collect()

    def _begin(self, runs: Ints) -> Iterator[Step]:
        """Begin these runs."""
        self._within_memory(lambda: self._rows.reserve(len(runs)))
        new, going_on = [], []
        for run in runs.tolist():
            aggregator = self._runs[run]
            self._table.add(run, aggregator, int(self._client_models.first[run]))
            if aggregator.resume_point is not None:
                going_on.append(self._resume(run, aggregator.resume_point))
                aggregator.resume_point = None
                continue
            rows = self._rows.keep(aggregator.initial[None])
            self._server[run] = rows[0]
            self._client_models.open(run, int(rows[0]))
            new.append(_Made(run, -1, NOBODY, rows))
        self._open[runs] = True
        if new:
            self._hand_out(new)
        self._pending |= {made.run: NOBODY for made in [*new, *going_on]}
        yield from self._tell()
        self._reported[runs] = -np.inf

    def _resume(self, run: int, beginning: ResumePoint) -> _Made:
        """Begin a run in the middle."""
        snapshot, jobs, place = beginning
        models = to_device(snapshot.models, self._runs[run].initial)
        rows = self._within_memory(partial(self._rows.keep, models))
        server = rows[[snapshot.server]]
        self._rows.refer(server)
        self._server[run], self._version[run] = server[0], snapshot.version
        self._client_models.restore(run, snapshot.held, rows)
        self._keep_starts(self._table.numbers(run, jobs), rows[place])
        self._begin_later(run, jobs, rows[place])
        self._find_next([run])
        self._rows.release(rows)
        return _Made(run, snapshot.version, NOBODY, server)

    def _snapshot(self, run: int) -> Snapshot:
        """The run as it is now; only at its moments."""
        table, client_models, aggregator = self._table, self._client_models, self._runs[run]
        jobs = table.of(run)
        jobs = jobs[table.start[jobs] >= 0]
        later, version, later_rows = client_models.to_begin(run)
        held = client_models.row[slice(*client_models.first[run : run + 2])]
        rows = np.concatenate([self._server[[run]], held, table.start[jobs], later_rows])
        distinct, place = np.unique(rows, return_inverse=True)
        models = self._rows.take(distinct)
        client, base = (
            np.append(table.who[jobs], later),
            np.append(table.start_version[jobs], version),
        )
        return Snapshot(
            version=aggregator.version,
            models=(models if len(distinct) > 1 else models.clone()).numpy(force=True),
            server=int(place[0]),
            held=client_models.saved(run, place[1 : 1 + len(held)]),
            waiting=Waiting(client, base, place[1 + len(held) :]),
            memory=aggregator.memory_now(),
        )

    def _hand_out(self, made: Sequence[_Made]) -> None:
        """Jobs begin from new versions."""
        table, client_models, readings = self._table, self._client_models, []
        lists: list[Ints] = []
        for run, last, _, rows in made:
            aggregator = self._runs[run]
            versions = range(last - len(rows) + 1, last + 1)
            lists += [
                table.numbers(run, aggregator.timeline.begun(version)) for version in versions
            ]
            if aggregator.link is not None:
                readings.append(self._reading(run, aggregator.timeline.begun(last)))
        jobs, counts = np.concatenate(lists), [len(numbers) for numbers in lists]
        client = table.client[jobs]
        rows = np.repeat(np.concatenate([update.rows for update in made]), counts)
        times = [self._time(job.run) for job in made for _ in job.rows]
        begin, now = table.begin[jobs], np.repeat(times, counts)
        rows = client_models.adopt(client, rows, table.start_version[jobs], begin, now, readings)
        self._keep_starts(jobs, rows)
        self._find_next([update.run for update in made])

    def _time(self, run: int) -> float:
        """When the newest version of a run was made."""
        version = self._runs[run].version
        return 0.0 if version < 0 else self._runs[run].timeline.time(version)

    def _begin_later(self, run: int, jobs: Ints, rows: Ints) -> None:
        """Jobs with these start models begin after the newest version was made, if they do."""
        table, link, numbers = self._table, self._runs[run].link, self._table.numbers(run, jobs)
        later = table.begin[numbers] > self._time(run)
        if later.any():
            jobs, numbers, rows = jobs[later], numbers[later], rows[later]
            client, base = table.client[numbers], table.start_version[numbers]
            read = np.zeros(len(jobs), np.bool_) if link is None else ~link.whole(jobs, base)
            self._client_models.begin_later(Jobs(client, rows, base, read), table.begin[numbers])

    def _keep_starts(self, jobs: Ints, rows: Ints) -> None:
        """Keep the start models of jobs that are used, or would be by a longer run."""
        table, left = self._table, self._table.left[jobs]
        if left.any():  # for snapshots
            table.start[jobs[left]] = rows[left]
            self._rows.refer(rows[left])
        used = np.isfinite(table.due[jobs])
        self._start(jobs[used], rows[used])

    def _start(self, jobs: Ints, rows: Ints) -> None:
        """Jobs that are used begin from the models in these rows."""
        table = self._table
        table.start[jobs] = rows
        self._rows.refer(rows)
        idle = table.steps[jobs] == 0
        if idle.any():  # these end where they start
            table.end[jobs[idle]] = rows[idle]
            self._rows.refer(rows[idle])
        self._ready.add(jobs[~idle & self._ahead[table.run[jobs]]])

    def _reading(self, run: int, jobs: Ints) -> tuple[Ints, list[Vector]]:
        """How clients that begin these jobs read a new version behind a codec."""
        aggregator, first = self._runs[run], int(self._client_models.first[run])
        assert aggregator.link is not None
        packed = jobs[~aggregator.link.whole(jobs, aggregator.version)]
        reads = np.unique(aggregator.timeline.known.client[packed])
        reads = reads[~self._client_models.own[first + reads]]
        newest, _, _ = self._client_models.at(run)
        last = [self._rows.row(row) for row in newest[reads].tolist()]
        server = self._rows.row(int(self._server[run]))
        models = aggregator.link.hand_out(aggregator.version, server, reads.tolist(), last)
        return first + reads, [models[who] for who in reads.tolist()]

    def _find_next(self, runs: Sequence[int]) -> None:
        """Note the jobs of the next update of each of these runs."""
        table, missing = self._table, self._missing
        for run in runs:
            aggregator = self._runs[run]
            self._jobs[run] = NOBODY
            if not aggregator.over:
                self._jobs[run] = table.numbers(
                    run, aggregator.timeline.jobs(aggregator.version + 1)
                )
                if not aggregator.timeline.complete:
                    table.update[self._jobs[run]] = aggregator.version + 1
                if not aggregator.ahead:
                    self._ready.add(self._jobs[run][table.steps[self._jobs[run]] > 0])
        lists = [self._jobs[run] for run in runs]
        jobs, counts = np.concatenate(lists), [len(numbers) for numbers in lists]
        lacks = table.end[jobs] < 0
        place = np.repeat(np.arange(len(runs)), counts)
        missing[list(runs)] = np.bincount(place, lacks, minlength=len(runs))
        self._early -= int((~lacks & (table.steps[jobs] > 0)).sum())

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
        correction = (
            models.new_zeros(len(models), self._layout.parameters) if self._corrected else None
        )
        before = np.zeros_like(work.steps)
        for run in np.unique(of[self._special[of]]).tolist():
            aggregator, mine = self._runs[run], np.flatnonzero(of == run)
            client, at = work.client[mine], to_device(mine, models)
            begun = aggregator.starts(client, models[at])
            starts[at, : begun.shape[1]] = begun
            if (made := aggregator.steps_before(client)) is not None:
                before[mine] = made
            own = aggregator.gradient_correction(client)
            if correction is not None and own is not None:
                correction[at] = own
        return starts, replace(work, correction=correction, steps_before=before)

    def _collect(self) -> None:
        """Keep the end models of finished jobs; waits for the lanes."""
        table, finished = self._table, self._lanes.collect()
        if finished is None:
            return
        jobs, ends, finite, made = finished
        self._made = StepsDone(self._made.steps + made.steps, made.at)
        self._under_way -= len(jobs)
        table.finite[jobs] = finite
        self._poisoned |= not finite.all()
        of = table.run[jobs]
        wanted = self._open[of]
        if not wanted.all():
            jobs, of = jobs[wanted], of[wanted]
            ends = ends[to_device(np.flatnonzero(wanted), ends)]
        if self._longest:
            ends = self._set_aside(jobs, ends)
        table.end[jobs] = self._within_memory(partial(self._rows.keep, ends))
        now = table.update[jobs] == self._version[of] + 1
        np.subtract.at(self._missing, of[now], 1)
        self._early += len(jobs) - int(now.sum())

    def _set_aside(self, jobs: Ints, ends: Stack) -> Stack:
        """End models without the memories, which clients renew when their answers are used."""
        size = self._layout.size
        for job, end, run in zip(jobs.tolist(), ends, self._table.run[jobs].tolist(), strict=True):
            if memory := self._runs[run].memory * self._layout.parameters:
                self._memories[job] = end[size : size + memory].clone()
        return ends[:, :size]

    def _apply(self) -> Iterator[Step]:
        """Make all updates that are complete, until there are none."""
        while len(runs := np.flatnonzero(self._open & (self._missing == 0))):
            if not self._pending.keys().isdisjoint(runs.tolist()):
                yield from self._tell()
                continue  # without the runs that are over
            refused: dict[int, Ints] = {}
            if self._poisoned:
                yield from self._refuse(runs, refused)
                runs = runs[self._open[runs]]
            linear = np.array([self._is_linear(run, refused) for run in runs.tolist()], np.bool_)
            made = [self._update_alone(run) for run in runs[~linear].tolist()]
            made += self._update_linear(runs[linear].tolist())
            if made:
                self._renew(made, refused)

    def _refuse(self, runs: Ints, refused: dict[int, Ints]) -> Iterator[Step]:
        """Find answers that must not be used; some runs end with them."""
        for run in runs.tolist():
            aggregator, finite = self._runs[run], self._table.finite[self._jobs[run]]
            server = self._rows.row(int(self._server[run]))
            try:
                refused[run] = aggregator.refuse(
                    aggregator.timeline.jobs(aggregator.version + 1), finite, server
                )
            except NonFiniteUpdate as error:
                yield self._step(run, error)
                self._close(run)

    def _is_linear(self, run: int, refused: dict[int, Ints]) -> bool:
        """Whether the next update of a run is made by a product: not if answers are left out."""
        whole = not len(refused.get(run, NOBODY))
        return whole and self._products is not None and bool(self._products.takes[run])

    def _update_alone(self, run: int) -> _Made:
        """Make the next update of a run by itself, or several at once."""
        scoring, plain = self._scoring, self._products is None or self._poisoned
        if scoring is None or plain or not self._runs[run].by_distances:
            return self._update_one(run)
        return self._update_by_distances(run, scoring)

    def _update_by_distances(self, run: int, scoring: Scoring) -> _Made:
        """Make the next updates of a run, as long as their jobs are finished."""
        table, aggregator, rows = self._table, self._runs[run], self._rows
        numbers, first = table.of(run), aggregator.timeline.jobs(aggregator.version + 1)
        others = np.setdiff1d(np.flatnonzero(table.end[numbers] >= 0), first)
        others = others[np.argsort(table.due[numbers[others]], kind="stable")]
        jobs = np.concatenate([first, others])[:_LONGEST]
        at_hand = self._answer_rows([run], [numbers[jobs]])

        def products() -> tuple[Stack, Floats]:
            models = rows.take(at_hand)
            rows.reserve(len(jobs))
            return models, inner_products(models[0, :, : self._layout.parameters])

        models, inner = self._within_memory(products)
        used, weights = walk(aggregator, jobs, inner, partial(scoring.due, run))
        mixed = partial(weighted, models, weights[:, None], self._layout)
        (servers,) = self._within_memory(mixed)
        chain = numbers[np.concatenate(used)]
        self._use_early(chain[len(first) :])
        return _Made(run, aggregator.version, chain, rows.keep(servers))

    def _use_early(self, jobs: Ints) -> None:
        """These jobs are used, which were finished before it was their update's turn."""
        self._early -= int((self._table.steps[jobs] > 0).sum())

    def _update_one(self, run: int) -> _Made:
        """Make the next update of one run."""
        table, jobs, rows = self._table, self._jobs[run], self._rows
        server, aggregator = rows.row(int(self._server[run])), self._runs[run]

        def made() -> Update:
            rows.reserve(1 + len(jobs))
            start, end = rows.take(table.start[jobs]), rows.take(table.end[jobs])
            return aggregator.update(server, start, end, table.finite[jobs])

        update = self._within_memory(made)
        if self._products is not None:
            self._products.forget(run)
        if update.own is not None:
            self._client_models.keep_own(
                self._client_models.first[run] + update.clients, update.own
            )
        return _Made(run, aggregator.version, jobs, rows.keep(update.server[None]))

    def _update_linear(self, runs: Sequence[int]) -> list[_Made]:
        """Make the next updates of these runs by products: one for all, or one for many updates."""
        chains = {run: self._chain(run) for run in runs}
        single = [run for run in runs if chains[run][0] == 1]
        longer = sorted(set(runs).difference(single), key=lambda run: chains[run][0])
        made = []
        for some in (single, longer):
            longest = max((chains[run][0] for run in some), default=1)
            at_once = max(1, self._at_once // longest)
            for first in range(0, len(some), at_once):
                made += self._update_together(
                    {run: chains[run] for run in some[first : first + at_once]}
                )
        return made

    def _chain(self, run: int) -> tuple[int, Ints]:
        """The next updates of a run that can be made at once: their number, and their jobs.

        All jobs are finished. The chain ends with a version that is evaluated, and where an update
        needs the one before it for more than the server model.
        """
        aggregator, table, products = self._runs[run], self._table, self._products
        assert products is not None
        products.prepare(run, self._about)
        jobs, first, scoring = self._jobs[run], aggregator.version + 1, self._scoring
        if scoring is None or self._poisoned or aggregator.nearly_over or not products.chains(run):
            return 1, jobs
        following = table.numbers(run, aggregator.timeline.jobs(first + 1))
        if (table.end[following] < 0).any():  # as a rule
            return 1, jobs
        places = aggregator.schedule.offsets[first : first + _LONGEST + 1]
        known, ends = table.of(run)[places[0] : places[-1]], places[1:] - places[0]
        lacking = np.flatnonzero(table.end[known] < 0)
        if len(lacking):
            ends = ends[: np.searchsorted(ends, lacking[0], side="right")]
        due = (scoring.due(run, version) for version in range(first, first + len(ends) - 1))
        length = next((number for number, is_due in enumerate(due, start=1) if is_due), len(ends))
        jobs = known[: ends[length - 1]]
        for about in self._abouts(run, jobs, ends[:length].tolist())[1:]:
            products.extend(run, about)
        self._use_early(jobs[ends[0] :])
        return length, jobs

    def _update_together(self, chains: dict[int, tuple[int, Ints]]) -> list[_Made]:
        """Make updates of these runs by one product."""
        products, runs = self._products, list(chains)
        assert products is not None
        lengths, jobs = zip(*chains.values(), strict=True)
        rows = self._answer_rows(runs, jobs)
        servers, own = self._within_memory(partial(products.mixed, runs, rows))
        for run in runs:
            products.finish(run)
        for places, models in own:
            clients = [self._table.client[self._jobs[runs[place]]] for place in places.tolist()]
            self._client_models.keep_own(np.concatenate(clients), models)
        kept = np.split(self._rows.keep(servers), np.cumsum(lengths)[:-1])
        return [
            _Made(run, self._runs[run].version, used, new)
            for run, used, new in zip(runs, jobs, kept, strict=True)
        ]

    def _answer_rows(self, runs: Sequence[int], lists: Sequence[Ints]) -> Ints:
        """Rows of each run's [w, starts, ends] of these jobs, (U, 1 + 2k), padded with w."""
        jobs, updates = np.concatenate(lists), np.array([len(numbers) for numbers in lists])
        server = self._server[list(runs)]
        rows = np.repeat(server[:, None], 1 + 2 * int(updates.max()), axis=1)
        update = np.repeat(np.arange(len(runs)), updates)
        place = 1 + np.arange(len(jobs)) - np.repeat(np.cumsum(updates) - updates, updates)
        rows[update, place] = self._table.start[jobs]
        rows[update, place + updates[update]] = self._table.end[jobs]
        return rows

    def _about(self, run: int) -> About:
        """The answers of a run's next update, without their models."""
        table, jobs, version = self._table, self._jobs[run], self._runs[run].version + 1
        stale = version - 1 - table.start_version[jobs]
        return About(table.who[jobs], table.steps[jobs], stale, table.rate[jobs], version)

    def _abouts(self, run: int, jobs: Ints, ends: Sequence[int]) -> list[About]:
        """The same for its next updates; `ends` are the places where their jobs end."""
        table, version = self._table, self._runs[run].version + 1
        who, steps, rate = table.who[jobs], table.steps[jobs], table.rate[jobs]
        before, abouts = version - 1 - table.start_version[jobs], []
        for number, (first, end) in enumerate(pairwise([0, *ends])):
            of = slice(first, end)
            updates = who[of], steps[of], before[of] + number, rate[of]
            abouts.append(About(*updates, version + number))
        return abouts

    def _renew(self, made: Sequence[_Made], refused: dict[int, Ints]) -> None:
        """Drop what the updates have used, and let new jobs begin."""
        table, jobs = self._table, np.concatenate([update.jobs for update in made])
        runs = [update.run for update in made]
        before = self._server[runs]
        self._rows.release(np.concatenate([table.start[jobs], table.end[jobs], before]))
        np.add.at(self._steps, table.run[jobs], table.steps[jobs])
        table.start[jobs] = table.end[jobs] = -1
        self._server[runs] = [update.rows[-1] for update in made]
        self._version[runs] = [self._runs[run].version for run in runs]
        for run in runs:
            if self._client_models.changing(run):
                self._client_models.reach(run, self._time(run))
        for run, clients in refused.items():
            self._client_models.own[self._client_models.first[run] + clients] = False
        for job in jobs.tolist() if self._memories else ():
            if (memory := self._memories.pop(job, None)) is not None:
                kept, steps = memory if table.finite[job] else None, int(table.steps[job])
                self._runs[table.run[job]].remember(int(table.who[job]), kept, steps)
        for run in runs:
            if not self._runs[run].timeline.complete:
                table.add(run, self._runs[run], int(self._client_models.first[run]))
        self._hand_out(made)
        self._rows.release(np.concatenate([update.rows[:-1] for update in made]))
        self._pending |= {run: refused.get(run, NOBODY) for run in runs}

    def _tell(self) -> Iterator[Step]:
        """The moments of all runs with a new version, before their next update."""
        untold, self._pending = self._pending, {}
        measured, now = self._measured(list(untold)), perf_counter()
        for run, refused in untold.items():
            if not (run in measured or len(refused) or self._is_to_tell(run, now)):
                continue
            version, server = self._runs[run].version, self._rows.row(int(self._server[run]))
            snapshot, steps = partial(self._snapshot, run), int(self._steps[run])
            held, score = self._held[run], measured.get(run)
            self._reported[run], self._steps[run] = now, 0
            yield self._step(
                run, ServerVersion(version, server, refused, held, snapshot, steps, score)
            )
            if self._runs[run].over:
                self._close(run)

    def _step(self, run: int, event: ServerVersion | NonFiniteUpdate) -> Step:
        made, self._made = self._made, self._made._replace(steps=0)
        return Step(run, event, made)

    def _is_to_tell(self, run: int, now: float) -> bool:
        """Whether a run's moment is needed for an evaluation, a checkpoint or the display."""
        scoring, aggregator = self._scoring, self._runs[run]
        if scoring is None or now > self._reported[run] + _PERIOD:
            return True
        return aggregator.over or aggregator.nearly_over or scoring.due(run, aggregator.version)

    def _measured(self, runs: Sequence[int]) -> dict[int, Measurement]:
        """Measurements of the runs that are evaluated together."""
        scoring, version = self._scoring, self._version
        if scoring is None:
            return {}
        due = [run for run in runs if scoring.together(run, int(version[run]))]
        if not due:
            return {}

        def measure() -> list[Measurement]:
            servers = self._rows.take(self._server[due]).clone()
            times = [scoring.time(run) for run in due]
            spreads = self._client_models.spreads(
                np.array(due), times, servers, self._layout.parameters
            )
            numbers = torch.cat([scoring.score(servers), spreads[0]], dim=1)
            return [Measurement(*row) for row in zip(numbers, servers, spreads[1], strict=True)]

        return dict(zip(due, self._within_memory(measure), strict=True))

    def _close(self, run: int) -> None:
        """End a run: free its models and drop its ready jobs."""
        table, jobs = self._table, self._table.of(run)
        start, end = table.start[jobs], table.end[jobs]
        early = table.update[jobs] != self._version[run] + 1
        self._early -= int((early & (end >= 0) & (table.steps[jobs] > 0)).sum())
        rows = np.concatenate([start[start >= 0], end[end >= 0], [self._server[run]]])
        self._rows.release(rows)
        self._client_models.close(run)
        self._ready.drop(run)
        for job in jobs.tolist() if self._memories else ():
            self._memories.pop(job, None)
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
