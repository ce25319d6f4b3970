"""Many runs on one set of lanes: a job is ready as soon as its start version exists.

The schedule is known in advance, so lanes need not wait for each update. They take the ready job
that is due first, over all runs; an update is made once its last job is finished. Long jobs are
trained at the same time as short ones, and jobs of later updates fill idle lanes.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch

from favano.engine.replay import Moment, Replay
from favano.errors import NonFiniteUpdate
from favano.methods import State
from favano.training import Job, Lanes
from favano.types import Ints, Vector

AHEAD = 4  # end models per lane that are kept for updates after the next one


class Step(NamedTuple):
    """A moment of one of the runs, or the error that ended it."""

    run: int
    moment: Moment | NonFiniteUpdate


class _Flow:
    """One run in the pool: the jobs that start from each version, and finished jobs."""

    def __init__(self, replay: Replay[State]) -> None:
        plan = replay.schedule
        self.replay = replay
        at_work = plan.visit[: plan.jobs][plan.steps[: plan.jobs] > 0]
        self.needed: list[int] = np.bincount(at_work, minlength=plan.updates).tolist()
        self.missing: list[int] = self.needed.copy()
        self.ends: dict[int, tuple[Vector, bool]] = {}
        self.visit, self.client = plan.visit.tolist(), plan.client.tolist()
        self.base, self.steps = plan.base.tolist(), plan.steps.tolist()
        self.first_step, self.rates = plan.first_step.tolist(), replay.rates.tolist()
        self.time = plan.time.tolist()
        by_base = np.argsort(plan.base[: plan.jobs], kind="stable")
        bounds = np.searchsorted(plan.base[by_base], np.arange(-1, plan.updates + 1))
        self._by_base, self._bounds = by_base, bounds

    def freed_by(self, version: int) -> Ints:
        """Jobs that start from this version."""
        return self._by_base[self._bounds[version + 1] : self._bounds[version + 2]]

    @property
    def next(self) -> int:
        """Number of the next update; the number of updates if there is none."""
        return self.replay.moment.version + 1

    @property
    def over(self) -> bool:
        """Whether all updates are made."""
        return self.next == self.replay.schedule.updates

    @property
    def kept(self) -> int:
        """Number of end models for updates after the next one."""
        version = self.next
        return len(self.ends) - self.needed[version] + self.missing[version]

    def take_in(self, job: int, end: Vector, finite: bool) -> None:
        """Keep the end model of a job."""
        self.ends[job] = end, finite
        self.missing[self.visit[job]] -= 1

    def submission(self, run: int, job: int) -> tuple[Vector, Job, Vector | None]:
        """Start model, job and drift correction for the lanes."""
        client, replay = self.client[job], self.replay
        drift = replay.drift(np.array([client])) if replay.corrected else None
        steps = self.first_step[job], self.steps[job], self.rates[job]
        start = replay.start(client, self.base[job])
        return start, Job(run, client, *steps), None if drift is None else drift[0]

    def update(self) -> Moment:
        """Make the next update; the end model of a job without steps is its start model."""
        jobs = self.replay.jobs(self.next)
        start = self.replay.starts(jobs)
        in_order = [self.ends.pop(job, (start[row], True)) for row, job in enumerate(jobs.tolist())]
        end = torch.stack([model for model, _ in in_order]) if in_order else start
        return self.replay.update(start, end, [finite for _, finite in in_order])


class _Pool:
    """The open runs, their ready jobs, and the jobs in the lanes."""

    def __init__(self, lanes: Lanes) -> None:
        self.lanes = lanes
        self.flows: dict[int, _Flow] = {}
        self.ready: list[tuple[float, int, int]] = []  # heap of due time, run and job
        self.under_way: dict[int, tuple[int, int]] = {}  # ticket: run and job
        self.submitted = 0

    def open(self, run: int, replay: Replay[State]) -> Iterator[Step]:
        """Begin a run."""
        self.flows[run] = _Flow(replay)
        yield Step(run, replay.moment)
        self._free(run, replay.moment)
        yield from self._advance(run)

    def fill(self) -> None:
        """Give the lanes the ready jobs that are due first."""
        kept = sum(flow.kept for flow in self.flows.values())
        enough = kept + len(self.under_way) >= AHEAD * self.lanes.capacity
        while self.ready and len(self.under_way) < self.lanes.capacity:
            _, run, job = self.ready[0]
            flow = self.flows.get(run)
            if flow and flow.visit[job] > flow.next and enough and self.under_way:
                return  # all jobs of the next update are in the lanes
            heapq.heappop(self.ready)
            if flow is None:
                continue
            self.lanes.submit(self.submitted, *flow.submission(run, job))
            self.under_way[self.submitted] = run, job
            self.submitted += 1

    def collect(self) -> Iterator[Step]:
        """Collect finished jobs, and make the updates that become complete."""
        for done in self.lanes.collect():
            run, job = self.under_way.pop(done.ticket)
            if run in self.flows:
                self.flows[run].take_in(job, done.end, done.finite)
                yield from self._advance(run)

    def _advance(self, run: int) -> Iterator[Step]:
        """Make updates of a run as long as all jobs of the next one are finished."""
        flow = self.flows[run]
        while not flow.over and not flow.missing[flow.next]:
            try:
                moment = flow.update()
            except NonFiniteUpdate as error:
                del self.flows[run]
                yield Step(run, error)
                return
            yield Step(run, moment)
            self._free(run, moment)
        if flow.over:
            del self.flows[run]

    def _free(self, run: int, moment: Moment) -> None:
        """Jobs that start from this version become ready, except those without steps."""
        flow = self.flows[run]
        for job in flow.freed_by(moment.version).tolist():
            if flow.steps[job]:
                heapq.heappush(self.ready, (flow.time[flow.visit[job]], run, job))


def pooled(replays: Sequence[Replay[State]], lanes: Lanes, *, at_once: int) -> Iterator[Step]:
    """The moments of all runs, each run's in order; `at_once` runs are open at a time.

    The task of a job is the number of its run. If a run fails, the others continue.
    """
    pool = _Pool(lanes)
    waiting = iter(enumerate(replays))
    while True:
        while len(pool.flows) < at_once and (entry := next(waiting, None)):
            yield from pool.open(*entry)
        if not pool.flows and not pool.under_way:
            return
        pool.fill()
        if pool.under_way:
            yield from pool.collect()
