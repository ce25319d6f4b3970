"""The virtual clock: drives any policy over a fleet up to the horizon.

Clients are known to policies by the numbers of their streams, so that renumbering the clients
together with their streams only renumbers the schedule. Events are in the order of time; of client
updates that arrive at the same time a random key says which is first, not the client's number, and
what arrives when the policy wakes is there before it acts.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from favano.errors import BadInput, format_error
from favano.policies import Action, Dispatch, Policy, ReceivedUpdate, Referee
from favano.schedule.draws import client_steps, draws_used, step_ends
from favano.schedule.job_times import JobTimes
from favano.schedule.schedule import Schedule
from favano.timing import ClientSpeeds, Trace
from favano.timing.ties import at_or_before, in_order, latest, not_after
from favano.types import Floats, Ints


def drive(
    policy: Policy, fleet: ClientSpeeds, horizon: float, seed: int, *, jobs: float = 0.0
) -> Schedule:
    """What the policy does with this fleet, up to the horizon.

    `jobs` is about how many there will be, if that is known: it saves time.
    """
    each = jobs / fleet.mean / float((1 / fleet.mean).sum())
    try:
        clock = _VirtualClock(policy, fleet, seed, each)
        clock.run(horizon)
    except Exception as error:
        if isinstance(error, BadInput) or type(policy).__module__.startswith("favano."):
            raise
        rule = f"raises {format_error(error)}"
        raise BadInput("policy", type(policy).__name__, rule) from error
    return clock.schedule


@dataclass(slots=True)
class _Job:
    stream: int  # of its client, whom policies know by it
    client: int
    number: int
    steps: int  # that it will make
    until: float
    start_version: int
    dispatched: float
    first_step: int = 0
    place: int = 0  # its first draw of a step time
    tie: int = 0
    begin: float = inf
    finish: float = inf


class _VirtualClock:
    """Clients at work, updates that are here, and all jobs and server steps so far."""

    def __init__(self, policy: Policy, fleet: ClientSpeeds, seed: int, jobs: Floats) -> None:
        self._policy, self._fleet, self._seed = policy.started(seed), fleet, seed
        self._most, self._recorded = client_steps(policy, fleet), isinstance(fleet.law, Trace)
        self._server_pause, self._client_pause = policy.server_pause, policy.client_pause
        self._times = JobTimes(fleet, self._most, jobs, seed)
        streams = enumerate(fleet.streams.tolist())
        self._client_of: dict[int, int] = {stream: client for client, stream in streams}
        self._now = 0.0
        self._jobs: list[_Job] = []
        # Of the jobs that each client has begun: their draws, their steps, and how many there are.
        self._draws, self._made, self._count = ([0] * fleet.clients for _ in range(3))
        self._at_work: dict[int, _Job] = {}  # by stream
        self._queues: dict[int, deque[_Job]] = {}
        # time in order, that of all steps in order, tie, number, job, time
        self._arrivals: list[tuple[float, float, int, int, _Job, float]] = []
        self._here: dict[int, _Job] = {}  # whose updates are here
        self._used: list[tuple[_Job, int]] = []  # jobs, and the server steps that use them
        self._unused: list[_Job] = []
        self._time: list[float] = []
        self._wasted = [0]  # steps before each server step, and after the last

    def run(self, horizon: float) -> None:
        """Go on until the horizon."""
        policy, arrivals, at_work = self._policy, self._arrivals, self._at_work
        referee, present, last = Referee(policy), self._client_of.keys(), float(latest(horizon))
        for stream in sorted(present):
            policy.join(stream, 0.0)
        while True:
            while (action := policy.act(self._now)) is not None:
                referee.check(action, self._now, present=present, busy=at_work, here=self._here)
                self._do(action)
            wakes = referee.waits(policy.wakes(), self._now, for_clients=bool(at_work))
            alarm = in_order(wakes) if wakes < inf else inf
            if at_work and arrivals[0][0] < alarm:
                now = max(self._now, arrivals[0][5])
                if now > last:
                    break
                self._now = now
                self._receive()
                continue
            if wakes > last:
                break
            self._now = max(self._now, wakes)
            while at_work and arrivals[0][0] == alarm:
                self._receive()
        if left := policy.end():
            self._use(left, max([horizon, *self._time[-1:]]))
        self._unused += self._here.values()
        while at_work and arrivals[0][5] <= last:  # the server is busy past the horizon
            self._unused.append(self._end())

    def _receive(self) -> None:
        """The next client update arrives."""
        job = self._end()
        self._here[job.number] = job
        update = ReceivedUpdate(job.stream, job.number, job.start_version, job.steps)
        self._policy.receive(update, self._now)

    def _end(self) -> _Job:
        """The next job ends, and its client goes on with one that waits."""
        *_, job, time = heapq.heappop(self._arrivals)
        job.finish = min(time, self._now)  # what arrives as the policy wakes is not later
        del self._at_work[job.stream]
        if queue := self._queues.get(job.stream):
            queued = queue.popleft()
            self._start([queued], max(job.finish, queued.dispatched))
        self._forget_cancelled()
        return job

    def _forget_cancelled(self) -> None:
        """Let the next arrival be that of a job under way."""
        arrivals = self._arrivals
        while arrivals and self._at_work.get(arrivals[0][4].stream) is not arrivals[0][4]:
            heapq.heappop(arrivals)

    def _do(self, action: Action) -> None:
        for update in action.drop:
            job = self._here.pop(update.job)
            self._unused.append(job)
            self._wasted[-1] += job.steps
        if action.cancel:
            self._cancel([self._at_work.pop(stream) for stream in action.cancel])
        if action.use is not None:
            self._now += self._server_pause
            self._use(action.use, self._now)
        if action.dispatch:
            self._dispatch(action.dispatch)

    def _use(self, updates: Sequence[ReceivedUpdate], time: float) -> None:
        self._used += [(self._here.pop(update.job), len(self._time)) for update in updates]
        self._time.append(time)
        self._wasted.append(0)

    def _dispatch(self, dispatches: Sequence[Dispatch]) -> None:
        version, begin = len(self._time) - 1, []
        for stream, until, steps in dispatches:
            client, number = self._client_of[stream], len(self._jobs)
            wanted = self._policy.steps_of(stream) if steps is None else steps
            job = _Job(stream, client, number, wanted, until, version, self._now)
            self._jobs.append(job)
            if stream in self._at_work:
                self._queues.setdefault(stream, deque()).append(job)
            else:
                begin.append(job)
                self._at_work[stream] = job
        self._start(begin, self._now)

    def _start(self, jobs: list[_Job], now: float) -> None:
        """Clients begin jobs."""
        begin, short = now + self._client_pause, []
        if len(jobs) > 1:
            clients = [job.client for job in jobs]
            self._times.prepare(clients, [self._count[client] for client in clients])
        for job in jobs:
            client, steps = job.client, job.steps
            job.begin, job.first_step, job.place = now, self._made[client], self._draws[client]
            length, job.tie = self._times.of(client, self._count[client], job.place, steps)
            self._at_work[job.stream] = job
            self._count[client] += 1
            self._draws[client] += steps
            self._made[client] += steps
            finish = time = begin + length
            key = late = in_order(finish)
            if finish > job.until:
                time = job.until
                key = in_order(time)
                if not not_after(length, time - begin):
                    short.append(job)
            heapq.heappush(self._arrivals, (key, late, job.tie, job.number, job, time))
        if short:
            self._stop(short, np.array([job.until for job in short]))

    def _cancel(self, jobs: list[_Job]) -> None:
        """Jobs are stopped now, and what was made of them is wasted."""
        self._stop(jobs, np.full(len(jobs), self._now))
        for job in jobs:
            job.finish = self._now
            self._wasted[-1] += job.steps
            self._unused += [job, *self._queues.pop(job.stream, ())]
        self._forget_cancelled()

    def _stop(self, jobs: list[_Job], time: Floats) -> None:
        """Count the steps that these jobs have made at these times, (m,)."""
        client, place = np.array([(job.client, job.place) for job in jobs]).T
        worked = time - np.array([job.begin for job in jobs]) - self._client_pause
        ends = step_ends(self._fleet, client, place, self._most[client], self._seed)
        done = at_or_before(ends, worked[:, None]).sum(axis=1).tolist()
        used = draws_used(self._fleet, ends, self._most[client], worked).tolist()
        for job, steps, draws in zip(jobs, done, used, strict=True):
            fewer = max(job.steps - steps, 0)
            job.steps -= fewer
            self._made[job.client] -= fewer
            if self._recorded:  # lines of a recording are played in order
                self._draws[job.client] = job.place + draws

    @property
    def schedule(self) -> Schedule:
        """All server steps and jobs. Unused jobs: dropped, unread, under way, and in queues."""
        under_way = sorted(self._at_work.values(), key=lambda job: (job.tie, job.client))
        queued = [job for stream in sorted(self._queues) for job in self._queues[stream]]
        for job in queued:
            job.first_step = self._made[job.client]
            self._made[job.client] += job.steps
        used_by = [update for _, update in self._used]
        jobs = [*(job for job, _ in self._used), *self._unused, *under_way, *queued]
        used_by += [len(self._time)] * (len(jobs) - len(used_by))

        def ints(values: list[int]) -> Ints:
            return np.array(values, dtype=np.int64)

        return Schedule(
            clients=self._fleet.clients,
            local_steps=self._most,
            time=np.array(self._time, dtype=np.float64),
            wasted_steps=ints(self._wasted[:-1]),
            client=ints([job.client for job in jobs]),
            steps=ints([job.steps for job in jobs]),
            start_version=ints([job.start_version for job in jobs]),
            used_by=ints(used_by),
            first_step=ints([job.first_step for job in jobs]),
            begin=np.array([job.begin for job in jobs], dtype=np.float64),
            finish=np.array([job.finish for job in jobs], dtype=np.float64),
        )
