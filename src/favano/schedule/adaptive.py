"""Unrolls `Adaptive` update by update, since the length of a job is set when it begins.

Step times are functions of (client, place in its stream), so only the number of steps is open: once
it is set, a client's next job is known, and with it the next arrival. Used jobs come first, so that
the jobs known so far form a schedule at any time.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import numpy as np

from favano.rng import Stream, bits
from favano.schedule.policies import Adaptive
from favano.schedule.schedule import Schedule
from favano.timing import Fleet
from favano.types import Ints

_JOB = np.dtype(
    [
        *((name, np.int64) for name in ("client", "steps", "base", "visit", "first_step")),
        *((name, np.float64) for name in ("begin", "finish", "used")),
    ]
)


class Unrolling:
    """A course that grows: it is known up to the next update."""

    complete = False

    def __init__(self, policy: Adaptive, fleet: Fleet, horizon: float, seed: int) -> None:
        self._policy, self._fleet, self._horizon, self._seed = policy, fleet, horizon, seed
        self._table = np.zeros(4 * fleet.clients, _JOB)
        self._jobs = self._updates = 0
        self._clock = 0.0
        self._arrivals: list[tuple[float, int, int]] = []  # finish, tie, client
        self._row = [0] * fleet.clients  # of the job under way
        self._number, self._place = [0] * fleet.clients, [0] * fleet.clients
        self._holders = {-1: fleet.clients}
        self._unneeded: Sequence[int] = ()
        self.ended = False
        for client in np.argsort(fleet.streams).tolist():
            self._begin(client, policy.local_steps)
        self._find_next()

    @property
    def schedule(self) -> Schedule:
        """The known part, checked once it is whole; valid until the next `go_on`."""
        jobs, used = self._table[: self._jobs], self._table[: self._updates]
        return Schedule(
            clients=self._fleet.clients,
            local_steps=self._policy.most_steps,
            time=used["used"],
            lost=np.zeros(self._updates, dtype=np.int64),
            client=jobs["client"],
            steps=jobs["steps"],
            base=jobs["base"],
            visit=jobs["visit"],
            first_step=jobs["first_step"],
            begin=jobs["begin"],
            finish=jobs["finish"],
            check=self.ended,
        )

    def jobs(self, version: int) -> Ints:
        return np.array([version])

    def go_on(self, steps: Ints | None) -> None:
        assert steps is not None
        made = self._table[self._updates - 1]
        client, held = int(made["client"]), int(made["base"])
        self._holders[held] -= 1
        self._unneeded = [held] if held >= 0 and not self._holders[held] else ()
        self._holders[self._updates - 1] = 1
        self._begin(client, int(steps[0]))
        self._find_next()

    def takers(self, version: int) -> Ints:
        return self._table["client"][version : version + 1].copy()

    def unneeded(self, version: int) -> Sequence[int]:
        return self._unneeded

    def _begin(self, client: int, steps: int) -> None:
        """Start a job of `steps` local steps from the newest version."""
        fleet, policy, place = self._fleet, self._policy, self._place[client]
        if self._jobs == len(self._table):
            self._table = np.concatenate([self._table, np.zeros_like(self._table)])
        now, base, open_end = self._clock, self._updates - 1, self._updates
        row = (client, steps, base, open_end, place, now, np.inf, np.inf)
        self._table[self._jobs], self._row[client] = row, self._jobs
        self._jobs += 1
        index = place + np.arange(steps)
        length = np.cumsum(fleet.durations(self._seed, np.array([client]), index))[-1]
        latency = policy.interaction_time if policy.latency == "client" else 0.0
        # Integer durations tie often: a random key decides, not the client's number.
        stream, number = fleet.streams[client], self._number[client]
        tie = int(bits(self._seed, Stream.ASSIGNMENT, stream, number))
        heapq.heappush(self._arrivals, (now + latency + float(length), tie, client))
        self._number[client] += 1
        self._place[client] += steps

    def _find_next(self) -> None:
        """Make the first arrival the next update, if it is before the horizon."""
        finish, _, client = self._arrivals[0]
        clock = max(self._clock, finish)
        if clock >= self._horizon:
            self.ended = True
            return
        heapq.heappop(self._arrivals)
        busy = self._policy.interaction_time if self._policy.latency == "server" else 0.0
        self._clock = clock + busy
        table, row, update = self._table, self._row[client], self._updates
        self._row[int(table["client"][update])] = row
        table[[update, row]] = table[[row, update]]
        table["finish"][update], table["used"][update] = finish, self._clock
        self._updates += 1
        table["visit"][update + 1 : self._jobs] = self._updates
