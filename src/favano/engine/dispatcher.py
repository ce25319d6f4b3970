"""Dispatch: jobs get their start models, wait until lanes are free, and are trained in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

import numpy as np
import torch
from torch.nn import functional

from favano.aggregation.aggregator import NO_INDICES
from favano.engine.client_models import Jobs
from favano.engine.ready_jobs import ReadyJobs
from favano.engine.run_table import NewVersions, RunTable
from favano.training import Lanes, StepsDone, Work, to_device
from favano.types import Ints, Mask, Stack, Vector

AHEAD = 4  # end models per lane that are kept for updates after the next one

T = TypeVar("T")


class Dispatcher:
    """Gives jobs to lanes, those first that are due first, over all runs.

    Args:
        runs: state of all runs.
        lanes: train the jobs; the task of a job is the number of its run.
    """

    def __init__(self, runs: RunTable, lanes: Lanes) -> None:
        self._runs, self._lanes = runs, lanes
        self._ready = ReadyJobs(runs.jobs)
        self._in_lanes = 0  # jobs
        self._asked: dict[int, int] = {}  # job whose values the clock of a run waits for
        self._dropped: dict[int, int] = {}  # jobs of each run that are forgotten
        self._early = 0  # end models for updates after the next one
        # Jobs are trained ahead: a state must not replace its client's before its turn.
        self._client_states: dict[int, Vector] = {}  # at the end of finished jobs, until used
        aggregators, parameters = runs.aggregators, runs.layout.parameters
        self._longest_state = max(run.memory.vectors for run in aggregators) * parameters
        self._corrected = any(run.corrected for run in aggregators)
        self._model_only = np.array([run.plain for run in aggregators])
        self._ahead = np.array([run.ahead for run in aggregators])

    def dispatch(self, new: Sequence[NewVersions]) -> None:
        """Jobs get new versions as start models, or their clients' own models."""
        runs, table, decoded, lists = self._runs, self._runs.jobs, [], list[Ints]()
        for run, _, rows in new:
            timeline, last = runs.aggregators[run].timeline, runs.aggregators[run].version
            made = range(last - len(rows) + 1, last + 1)
            lists += [table.of(run)[timeline.begun(version)] for version in made]
            if runs.aggregators[run].link is not None:
                decoded.append(self._decoded(run, timeline.begun(last)))
        jobs, counts = np.concatenate(lists), [len(numbers) for numbers in lists]
        rows = np.repeat(np.concatenate([versions.rows for versions in new]), counts)
        times = [runs.time(versions.run) for versions in new for _ in versions.rows]
        begin, now = table.begin[jobs], np.repeat(times, counts)
        client, version = table.client[jobs], table.start_version[jobs]
        self._start(jobs, runs.clients.assign(client, rows, version, begin, now, decoded))
        self._await_next([versions.run for versions in new])

    def resume(self, run: int, jobs: Ints, rows: Ints) -> None:
        """Jobs of a run that was interrupted start again.

        Args:
            run: number of the run.
            jobs: (k,) numbers within the run.
            rows: (k,) of their start models.
        """
        table, link = self._runs.jobs, self._runs.aggregators[run].link
        numbers = table.of(run)[jobs]
        self._start(numbers, rows)
        later = table.begin[numbers] > self._runs.time(run)
        if later.any():
            jobs, numbers, rows = jobs[later], numbers[later], rows[later]
            client, version = table.client[numbers], table.start_version[numbers]
            read = np.zeros(len(jobs), np.bool_) if link is None else ~link.whole(jobs, version)
            waiting = Jobs(client, rows, version, read)
            self._runs.clients.begin_later(waiting, table.begin[numbers])
        self._await_next([run])

    def _decoded(self, run: int, jobs: Ints) -> tuple[Ints, list[Vector]]:
        """The newest version as the clients of these jobs decode it, and these clients."""
        runs, aggregator = self._runs, self._runs.aggregators[run]
        assert aggregator.link is not None
        first = int(runs.clients.first[run])
        packed = jobs[~aggregator.link.whole(jobs, aggregator.version)]
        clients = np.unique(aggregator.timeline.known.client[packed])
        clients = clients[~runs.clients.own[first + clients]]
        newest, _, _ = runs.clients.at(run)
        last = [runs.models.row(row) for row in newest[clients].tolist()]
        server, who = runs.server_model(run), clients.tolist()
        models = aggregator.link.hand_out(aggregator.version, server, who, last)
        return first + clients, [models[client] for client in who]

    def learn(self, run: int) -> None:
        """Let the clock of a run that grows go on, as far as values of client updates are known."""
        state, table, aggregator = self._runs, self._runs.jobs, self._runs.aggregators[run]
        clock, parameters = aggregator.clock, state.layout.parameters
        assert clock is not None
        while clock.awaited is not None and aggregator.can_learn:
            job = table.of(run)[clock.awaited]
            if table.end[job] < 0:
                if not aggregator.ahead and self._asked.get(run) != job:
                    self._asked[run] = job
                    self._ready.add(job[None])
                return
            models = (state.models.row(int(row)) for row in (table.start[job], table.end[job]))
            start, end = (model[:parameters] for model in models)
            server = state.server_model(run)[:parameters]
            aggregator.learn(float(table.loss[job]), server, start, end)
            self._grow(run)

    def _grow(self, run: int) -> None:
        """Take over what the timeline of a run has got: jobs, and updates or none for others."""
        state, table, aggregator = self._runs, self._runs.jobs, self._runs.aggregators[run]
        known = len(table.of(run))
        state.add_jobs(run)
        dropped = aggregator.timeline.dropped
        if len(dropped) > self._dropped.get(run, 0):
            self._forget(table.of(run)[dropped[self._dropped.get(run, 0) :]])
            self._dropped[run] = len(dropped)
        newest = aggregator.timeline.begun(aggregator.version)
        jobs = table.of(run)[newest[newest >= known]]
        if len(jobs):
            rows, now = np.full(len(jobs), state.server[run]), np.full(len(jobs), state.time(run))
            columns = table.client[jobs], rows, table.start_version[jobs], table.begin[jobs], now
            self._start(jobs, state.clients.assign(*columns))
        if aggregator.knows_next and not len(state.next_jobs[run]):
            self._await_next([run])

    def _forget(self, jobs: Ints) -> None:
        """Updates of these jobs will not be used."""
        table = self._runs.jobs
        self._early -= int(((table.end[jobs] >= 0) & (table.steps[jobs] > 0)).sum())
        rows = np.concatenate([table.start[jobs], table.end[jobs]])
        self._runs.models.release(rows[rows >= 0])
        table.start[jobs] = table.end[jobs] = -1
        self._ready.drop(jobs)
        for job in jobs.tolist() if self._client_states else ():
            self._client_states.pop(job, None)

    def _start(self, jobs: Ints, rows: Ints) -> None:
        """Keep the start models of jobs that are used, or would be by a longer run."""
        table, models = self._runs.jobs, self._runs.models
        # Only snapshots need the start models of jobs that end after the horizon.
        kept = table.unfinished[jobs] | (used := np.isfinite(table.due[jobs]))
        if not kept.all():
            jobs, rows, used = jobs[kept], rows[kept], used[kept]
        table.start[jobs] = rows
        models.retain(rows)
        idle = used & (table.steps[jobs] == 0)
        if idle.any():  # these end where they start
            table.end[jobs[idle]] = rows[idle]
            models.retain(rows[idle])
        self._ready.add(jobs[used & ~idle & self._ahead[table.run[jobs]]])

    def _await_next(self, runs: Sequence[int]) -> None:
        """Note the jobs of the next update of each of these runs, and how many are missing."""
        table, state = self._runs.jobs, self._runs
        for run in runs:
            aggregator, state.next_jobs[run] = state.aggregators[run], NO_INDICES
            if aggregator.knows_next and not aggregator.over:
                jobs = table.of(run)[aggregator.timeline.jobs(aggregator.version + 1)]
                state.next_jobs[run] = jobs
                if not aggregator.ahead:  # each depends on its client's last job
                    self._ready.add(jobs[(table.steps[jobs] > 0) & (table.end[jobs] < 0)])
        lists = [state.next_jobs[run] for run in runs]
        jobs, counts = np.concatenate(lists), [len(numbers) for numbers in lists]
        lacks = table.end[jobs] < 0
        place = np.repeat(np.arange(len(runs)), counts)
        state.missing[list(runs)] = np.bincount(place, lacks, minlength=len(runs))
        for run in runs:
            if not state.aggregators[run].knows_next:
                state.missing[run] = 1  # nobody knows which
        self._early -= int((~lacks & (table.steps[jobs] > 0)).sum())

    def launch(self) -> None:
        """Fill the free lanes, and let all lanes train, without waiting."""
        jobs = self._next_jobs(self._lanes.free)
        if len(jobs):
            table, of = self._runs.jobs, self._runs.jobs.run[jobs]
            place, steps, rate = table.first_step[jobs], table.steps[jobs], table.rate[jobs]
            work = Work(table.client_in_run[jobs], place, steps, rate)
            models = self._runs.models.take(table.start[jobs])
            if not self._model_only[of].all():
                models, work = self._with_client_states(of, models, work)
            self._lanes.load(jobs, models, of, work)
            # Only now: if memory was short in `load`, the same jobs are first again.
            self._ready.remove(len(jobs))
            self._in_lanes += len(jobs)
        self._lanes.launch()

    def _next_jobs(self, free: int) -> Ints:
        """The ready jobs to train: those of next updates, and not too many of later ones.

        Each finished job keeps a model in memory until its update is made. Without a limit, lanes
        that wait for one long job would fill the memory with the end models of all later ones.
        """
        jobs = self._ready.first(free)
        if not len(jobs):
            return jobs
        later = self._is_later(jobs)
        room = AHEAD * self._lanes.capacity - self._early - self._in_lanes
        blocked = later & (np.cumsum(later) > room)
        # With idle lanes and nothing but later jobs, waiting would be for ever.
        if not blocked.any() or (blocked[0] and not self._in_lanes):
            return jobs
        return jobs[: int(np.argmax(blocked))]

    def _is_later(self, jobs: Ints) -> Mask:
        """Which of these jobs belong to updates after their run's next one."""
        table = self._runs.jobs
        later: Mask = table.update[jobs] != self._runs.version[table.run[jobs]] + 1
        return later

    def _with_client_states(self, of: Ints, models: Stack, work: Work) -> tuple[Stack, Work]:
        """Start models (k, size) with what clients of some runs keep: states, buffers, corrections.

        All jobs are loaded at once, so rows are as long as the longest: (k, size + states).
        """
        starts, before = functional.pad(models, (0, self._longest_state)), np.zeros_like(work.steps)
        parameters = self._runs.layout.parameters
        correction = models.new_zeros(len(models), parameters) if self._corrected else None
        for run in np.unique(of[~self._model_only[of]]).tolist():
            aggregator, mine = self._runs.aggregators[run], np.flatnonzero(of == run)
            client, at = work.client[mine], to_device(mine, models)
            start = aggregator.memory.starts(client, models[at])
            starts[at, : start.shape[1]] = start
            if (steps := aggregator.memory.steps_before(client)) is not None:
                before[mine] = steps
            own = aggregator.gradient_correction(client)
            if correction is not None and own is not None:
                correction[at] = own
        return starts, replace(work, correction=correction, steps_before=before)

    def collect(self) -> StepsDone | None:
        """Keep the end models of finished jobs; waits for the lanes."""
        runs, table, finished = self._runs, self._runs.jobs, self._lanes.collect()
        if finished is None:
            return None
        jobs, ends, finite, done, losses = finished
        self._in_lanes -= len(jobs)
        table.finite[jobs] = finite
        if losses is not None:
            table.loss[jobs] = losses
        runs.any_non_finite |= not finite.all()
        of = table.run[jobs]
        wanted = runs.active[of] & (table.start[jobs] >= 0)  # else it was cancelled
        if not wanted.all():
            jobs, of = jobs[wanted], of[wanted]
            ends = ends[to_device(np.flatnonzero(wanted), ends)]
        if self._longest_state:
            ends = self._without_client_states(jobs, ends)
        table.end[jobs] = self.retry_with_fewer_lanes(partial(runs.models.store, ends))
        self._screen_poison(jobs, of)
        later = self._is_later(jobs)
        np.subtract.at(runs.missing, of[~later], 1)
        self._early += int(later.sum())
        return done

    def _screen_poison(self, jobs: Ints, of: Ints) -> None:
        """Note which finished jobs have client updates that are not finite as they are sent."""
        table, models, aggregators = self._runs.jobs, self._runs.models, self._runs.aggregators
        for run in np.unique(of).tolist():
            if aggregators[run].poisons:
                mine = jobs[of == run]
                start, end = models.take(table.start[mine]), models.take(table.end[mine])
                numbers = np.searchsorted(table.of(run), mine)
                finite = aggregators[run].finite_as_sent(numbers, start, end, table.finite[mine])
                table.finite[mine] = finite
                self._runs.any_non_finite |= not finite.all()

    def _without_client_states(self, jobs: Ints, ends: Stack) -> Stack:
        """End models (k, size). A client keeps its new state only when its update is used."""
        size, parameters = self._runs.layout.size, self._runs.layout.parameters
        of = self._runs.jobs.run[jobs].tolist()
        for job, end, run in zip(jobs.tolist(), ends, of, strict=True):
            if state := self._runs.aggregators[run].memory.vectors * parameters:
                self._client_states[job] = end[size : size + state].clone()
        return ends[:, :size]

    def use(self, jobs: Ints) -> None:
        """The client updates of these jobs are used; called before versions advance."""
        table = self._runs.jobs
        self._early -= int((self._is_later(jobs) & (table.steps[jobs] > 0)).sum())
        for job in jobs.tolist() if self._client_states else ():
            if (state := self._client_states.pop(job, None)) is not None:
                kept, steps = state if table.finite[job] else None, int(table.steps[job])
                run = self._runs.aggregators[table.run[job]]
                run.memory.remember(int(table.client_in_run[job]), kept, steps)

    def close(self, run: int) -> None:
        """Drop a run's ready and finished jobs; those in lanes are dropped when collected."""
        table, jobs = self._runs.jobs, self._runs.jobs.of(run)
        finished = (table.end[jobs] >= 0) & (table.steps[jobs] > 0)
        self._early -= int((finished & self._is_later(jobs)).sum())
        self._ready.drop(jobs)
        for job in jobs.tolist() if self._client_states else ():
            self._client_states.pop(job, None)

    def retry_with_fewer_lanes(self, act: Callable[[], T]) -> T:
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
            self._in_lanes -= len(jobs)
            wanted = self._runs.active[self._runs.jobs.run[jobs]] & (
                self._runs.jobs.start[jobs] >= 0
            )
            self._ready.add(jobs[wanted])
