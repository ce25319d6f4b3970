"""Unrolls `Adaptive` update by update, since the length of a job is said when it begins.

Step times are functions of (client, place in its stream), so nothing but the number of steps is
open: a client's next job is known as soon as somebody says how long it is, and with it the next
arrival. The rows of the schedule are kept as it wants them, used jobs first, so that what is known
so far is a schedule at any moment.
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
    """A course that grows: it knows the next update, and nothing behind it."""

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
        """What is known; checked once it is whole. Valid until the course goes on."""
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
        """The one arrival."""
        return np.array([version])

    def go_on(self, steps: Ints | None) -> None:
        """The client of the newest update goes on from it; then the next arrival is known."""
        assert steps is not None
        made = self._table[self._updates - 1]
        client, held = int(made["client"]), int(made["base"])
        self._holders[held] -= 1
        self._unneeded = [held] if held >= 0 and not self._holders[held] else ()
        self._holders[self._updates - 1] = 1
        self._begin(client, int(steps[0]))
        self._find_next()

    def takers(self, version: int) -> Ints:
        """The client that the update came from."""
        return self._table["client"][version : version + 1].copy()

    def unneeded(self, version: int) -> Sequence[int]:
        """The version that this client held before, unless somebody else does."""
        return self._unneeded

    def _begin(self, client: int, steps: int) -> None:
        """A job of so many steps from the newest version."""
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
        # Integer durations tie often: a random key decides, not the number of the client.
        stream, number = fleet.streams[client], self._number[client]
        tie = int(bits(self._seed, Stream.ASSIGNMENT, stream, number))
        heapq.heappush(self._arrivals, (now + latency + float(length), tie, client))
        self._number[client] += 1
        self._place[client] += steps

    def _find_next(self) -> None:
        """Make the first arrival the next update, if it comes before the horizon."""
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
