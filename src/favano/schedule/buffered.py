"""Plans `Buffered`: client updates are used in the order in which they arrive."""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from favano.errors import require
from favano.rng import Stream, bits, uniform
from favano.schedule.draws import blocks, random_subsets, step_ends
from favano.schedule.policies import Buffered
from favano.schedule.schedule import Schedule
from favano.timing import ClientSpeeds
from favano.timing.ties import in_order, latest
from favano.types import Floats, Ints

_AT_ONCE = 8, 512  # jobs of a client that are drawn at first, at least and at most
_SERVER = 2**40  # the server's own stream among those of the clients


class _Job(NamedTuple):
    """One job; jobs are ordered by the time at which their updates arrive."""

    arrival: float  # `finish`, where equal times are the same number
    tie: int
    client: int
    number: int  # among this client's jobs
    finish: float
    begin: float
    start_version: int


class _JobTimes:
    """Durations of each client's jobs; `tie` orders equal arrivals.

    About as many as needed are drawn for all clients at once, more in growing blocks.
    """

    def __init__(
        self, fleet: ClientSpeeds, local_steps: int, jobs: Floats, seed: int
    ) -> None:  # jobs: (n,) that each client is expected to make
        self._fleet, self._local_steps, self._seed = fleet, local_steps, seed
        self._length = [np.empty(0)] * fleet.clients  # (jobs,) each
        self._tie = [np.empty(0, np.uint64)] * fleet.clients
        drawn = 2 ** np.ceil(np.log2(np.minimum(jobs + _AT_ONCE[0], _AT_ONCE[1]))).astype(np.int64)
        for stop in np.unique(drawn).tolist():
            clients = np.flatnonzero(drawn == stop)
            for part in blocks(len(clients), stop * local_steps):
                self._extend(clients[part], 0, stop)

    def of(self, client: int, number: int) -> tuple[float, int]:
        if number >= len(self._length[client]):
            self._extend(np.array([client]), len(self._length[client]), 2 * number)
        return float(self._length[client][number]), int(self._tie[client][number])

    def _extend(self, clients: Ints, first: int, stop: int) -> None:
        client = np.repeat(clients, stop - first)
        number = np.tile(np.arange(first, stop), len(clients))
        draw = number * self._local_steps
        ends = step_ends(self._fleet, client, draw, self._local_steps, self._seed)[:, -1]
        tie = bits(self._seed, Stream.ASSIGNMENT, self._fleet.streams[client], number)
        lengths, ties = (values.reshape(len(clients), -1) for values in (ends.copy(), tie))
        for who, length, key in zip(clients.tolist(), lengths, ties, strict=True):
            self._length[who] = np.concatenate([self._length[who], length])
            self._tie[who] = np.concatenate([self._tie[who], key])


class _Workers:
    """The clients: what they are doing, and who gets the next job."""

    def __init__(self, policy: Buffered, fleet: ClientSpeeds, horizon: float, seed: int) -> None:
        share = (policy.concurrency or fleet.clients) / fleet.clients  # of the time at work
        jobs = share * horizon / (policy.local_steps * fleet.mean)
        self.times = _JobTimes(fleet, policy.local_steps, jobs, seed)
        self.latency = policy.interaction_time if policy.latency == "client" else 0.0
        self.under_way: list[_Job] = []
        self.jobs_done = [0] * fleet.clients
        # Models queued at busy clients, with the time at which they were handed out: a client that
        # finished while the server was busy may get one after its finish, and cannot begin before.
        self.waiting: list[deque[tuple[int, float]]] = [deque() for _ in range(fleet.clients)]
        self.busy = [False] * fleet.clients
        self.by_stream: list[int] = np.argsort(fleet.streams).tolist()
        self.idle: list[int] = []
        self.seed = seed
        self.assigned = 0

    def give(self, client: int, base: int, now: float) -> None:
        """Hand the client a model; it queues if the client is at work."""
        if self.busy[client]:
            self.waiting[client].append((base, now))
        else:
            self._start(client, base, now)

    def answered(self, client: int, now: float) -> None:
        """The client has answered and starts the job that waits for it, if any."""
        self.busy[client] = False
        self.jobs_done[client] += 1
        if self.waiting[client]:
            base, time = self.waiting[client].popleft()
            self._start(client, base, max(now, time))

    def answers_until(self, last: float) -> list[_Job]:
        """Jobs that end by then while the server is busy; their clients go on without it."""
        unread = []
        while self.under_way and self.under_way[0].finish <= last:
            unread.append(heapq.heappop(self.under_way))
            self.answered(unread[-1].client, unread[-1].finish)
        return unread

    def unfinished(self) -> list[_Job]:
        """Jobs under way, then jobs that wait."""
        queued = [
            _Job(np.inf, 0, client, self.jobs_done[client] + 1 + place, np.inf, np.inf, base)
            for client in self.by_stream
            for place, (base, _) in enumerate(self.waiting[client])
        ]
        return (
            sorted(job._replace(arrival=np.inf, finish=np.inf) for job in self.under_way) + queued
        )

    def anyone(self) -> int:
        """A client drawn uniformly, busy or not."""
        return self.by_stream[self._draw(len(self.by_stream))]

    def someone_idle(self) -> int:
        """An idle client drawn uniformly; it is not idle any more."""
        place = self._draw(len(self.idle))
        self.idle[place], self.idle[-1] = self.idle[-1], self.idle[place]
        return self.idle.pop()

    def _start(self, client: int, base: int, now: float) -> None:
        self.busy[client] = True
        number = self.jobs_done[client]
        length, tie = self.times.of(client, number)
        finish = now + self.latency + length
        job = _Job(in_order(finish), tie, client, number, finish, now, base)
        heapq.heappush(self.under_way, job)

    def _draw(self, size: int) -> int:
        self.assigned += 1
        return int(uniform(self.seed, Stream.ASSIGNMENT, _SERVER, self.assigned) * size)


@dataclass
class _Updates:
    """The updates made so far."""

    time: list[float] = field(default_factory=list)
    lost: list[int] = field(default_factory=list)
    used: list[tuple[_Job, int]] = field(default_factory=list)  # job and the update that used it
    wasted: int = 0

    @property
    def version(self) -> int:
        return len(self.time) - 1

    def flush(self, buffer: list[_Job], now: float) -> None:
        self.time.append(now)
        self.lost.append(self.wasted)
        self.wasted = 0
        self.used += [(job, self.version) for job in buffer]


def plan_buffered(policy: Buffered, fleet: ClientSpeeds, horizon: float, seed: int) -> Schedule:
    """All arrivals up to the horizon, and the updates they cause."""
    concurrency = fleet.clients if policy.concurrency is None else policy.concurrency
    rule = f"need 1..clients ({fleet.clients})"
    require(concurrency <= fleet.clients, "concurrency", concurrency, rule)
    if policy.hand_out == "flush":
        rule = f"need 1..{concurrency}, the clients at work, or the buffer never fills"
        require(policy.buffer <= concurrency, "buffer", policy.buffer, rule)
    workers = _Workers(policy, fleet, horizon, seed)
    for client in random_subsets(fleet, concurrency, np.array([0]), seed)[0].tolist():
        workers.give(client, -1, 0.0)
    workers.idle = [client for client in workers.by_stream if not workers.busy[client]]

    pause = policy.interaction_time if policy.latency == "server" else 0.0
    updates = _Updates()
    buffer: list[_Job] = []
    thrown_away: list[_Job] = []
    clock, open_places, last = 0.0, 0, float(latest(horizon))
    while workers.under_way:
        job = heapq.heappop(workers.under_way)
        clock = max(clock, job.finish)
        if clock > last:
            heapq.heappush(workers.under_way, job)
            break
        workers.answered(job.client, job.finish)
        limit = policy.max_staleness
        too_old = limit is not None and updates.version - job.start_version > limit
        if too_old:
            updates.wasted += policy.local_steps
            thrown_away.append(job)
        else:
            buffer.append(job)
        if policy.hand_out == "arrival" or (policy.hand_out == "flush" and too_old):
            workers.give(job.client, updates.version, clock)

        contributors: list[int] = []
        if len(buffer) == policy.buffer:
            clock += pause
            updates.flush(buffer, clock)
            contributors, buffer = [entry.client for entry in buffer], []

        if policy.hand_out == "flush":
            for client in contributors:
                workers.give(client, updates.version, clock)
        elif policy.hand_out == "uniform":
            workers.give(workers.anyone(), updates.version, clock)
        elif policy.hand_out == "idle":
            workers.idle += contributors if policy.distinct and not too_old else [job.client]
            open_places += 1
            while open_places and workers.idle:
                workers.give(workers.someone_idle(), updates.version, clock)
                open_places -= 1
    if buffer and policy.flush_at_end:
        updates.flush(buffer, max([horizon, *updates.time[-1:]]))
        buffer = []
    unread = workers.answers_until(last)
    return _assemble(
        policy, fleet, updates, [*thrown_away, *buffer, *unread, *workers.unfinished()]
    )


def _assemble(
    policy: Buffered, fleet: ClientSpeeds, updates: _Updates, unused: list[_Job]
) -> Schedule:
    jobs = [job for job, _ in updates.used] + unused
    used_by = [visit for _, visit in updates.used] + [len(updates.time)] * len(unused)
    return Schedule(
        clients=fleet.clients,
        local_steps=policy.local_steps,
        time=np.array(updates.time, dtype=np.float64),
        wasted_steps=np.array(updates.lost, dtype=np.int64),
        client=np.array([job.client for job in jobs], dtype=np.int64),
        steps=np.full(len(jobs), policy.local_steps, dtype=np.int64),
        start_version=np.array([job.start_version for job in jobs], dtype=np.int64),
        used_by=np.array(used_by, dtype=np.int64),
        first_step=np.array([job.number for job in jobs], dtype=np.int64) * policy.local_steps,
        begin=np.array([job.begin for job in jobs], dtype=np.float64),
        finish=np.array([job.finish for job in jobs], dtype=np.float64),
    )
