"""Plans `Adaptive` server step by server step, since the length of a job is set when it begins.

Step times are functions of (client, place in its stream), so only the number of steps is open: once
it is set, a client's next job is known, and with it the next arrival. Jobs are numbered in the
order in which they begin; in the schedule used jobs come first, so that what is known so far forms
one at any time.
"""

from __future__ import annotations

import heapq

import numpy as np
import numpy.typing as npt

from favano.policies import Adaptive
from favano.rng import Stream, word
from favano.schedule.schedule import Schedule, schedule_of
from favano.timing import ClientSpeeds
from favano.timing.ties import in_order, latest
from favano.types import Floats, Ints

_JOB = np.dtype(
    [
        *(
            (name, np.int64)
            for name in ("client", "steps", "start_version", "used_by", "first_step")
        ),
        *((name, np.float64) for name in ("begin", "finish", "used", "due")),
    ]
)
_BLOCK = 64  # step times drawn at once
_OPEN = np.iinfo(np.int64).max  # the update of a job that no known update uses

Jobs = npt.NDArray[np.void]


class GrowingTimeline:
    """A timeline that grows: it is known up to the next update."""

    complete = False

    def __init__(self, policy: Adaptive, fleet: ClientSpeeds, horizon: float, seed: int) -> None:
        self._policy, self._fleet, self._seed = policy, fleet, seed
        self._last = float(latest(horizon))  # time of an arrival that counts
        self._table = np.zeros(4 * fleet.clients, _JOB)
        self._order = np.arange(len(self._table))  # jobs in the order of the schedule
        self._jobs = self._updates = 0
        self._clock = 0.0
        self._arrivals: list[tuple[float, int, int, float]] = []  # in order, tie, client, finish
        self._row = [0] * fleet.clients  # place of the job under way in the schedule
        self._number, self._place = [0] * fleet.clients, [0] * fleet.clients
        self.ended = False
        self._drawn: list[tuple[int, Floats]] = [(0, np.empty(0))] * fleet.clients
        self._known: Schedule | None = None
        for client in np.argsort(fleet.streams).tolist():
            self._begin(client, policy.steps_of(int(fleet.streams[client])))
        self._find_next()

    @property
    def schedule(self) -> Schedule:
        """The known part, checked once it is whole; valid until the next `extend`."""
        jobs = self._table[self._order[: self._jobs]]
        jobs["used_by"] = np.minimum(jobs["used_by"], self._updates)
        return self._part(jobs, check=self.ended)

    @property
    def known(self) -> Schedule:
        if self._known is None:
            self._known = self._part(self._table[: self._jobs], check=False)
        return self._known

    @property
    def due(self) -> Floats:
        due: Floats = self._table["due"][: self._jobs]
        return due

    @property
    def updates(self) -> int:
        return self._updates

    def time(self, update: int) -> float:
        return float(self._table["used"][self._order[update]])

    def jobs(self, update: int) -> Ints:
        return self._order[update : update + 1].copy()

    def begun(self, version: int) -> Ints:
        clients = self._fleet.clients
        return np.arange(clients) if version < 0 else np.array([clients + version])

    def extend(self, steps: Ints | None) -> None:
        assert steps is not None
        self._known, last = None, self._order[self._updates - 1]
        self._begin(int(self._table["client"][last]), int(steps[0]))
        self._find_next()

    def _part(self, jobs: Jobs, *, check: bool) -> Schedule:
        used = self._table["used"][self._order[: self._updates]]
        return schedule_of(
            jobs,
            clients=self._fleet.clients,
            local_steps=self._policy.most_steps,
            time=used,
            wasted_steps=np.zeros(self._updates, dtype=np.int64),
            check=check,
        )

    def _begin(self, client: int, steps: int) -> None:
        """Start a job of `steps` local steps from the newest version."""
        fleet, policy, place = self._fleet, self._policy, self._place[client]
        if self._jobs == len(self._table):
            self._table = np.concatenate([self._table, np.zeros_like(self._table)])
            self._order = np.concatenate([self._order, len(self._order) + self._order])
        now, base = self._clock, self._updates - 1
        length = self._length(client, place, steps)
        latency = policy.interaction_time if policy.latency == "client" else 0.0
        arrival = now + latency + length
        due = arrival if arrival <= self._last else np.inf
        row = (client, steps, base, _OPEN, place, now, due, np.inf, due)
        self._table[self._jobs], self._row[client] = row, self._jobs
        self._order[self._jobs] = self._jobs
        self._jobs += 1
        # Integer durations tie often: a random key decides, not the client's number.
        stream, number = fleet.streams[client], self._number[client]
        tie = word(self._seed, Stream.ASSIGNMENT, int(stream), number) % 2**64
        heapq.heappush(self._arrivals, (in_order(arrival), tie, client, arrival))
        self._number[client] += 1
        self._place[client] += steps

    def _length(self, client: int, place: int, steps: int) -> float:
        """Duration of the next steps of a client, which are drawn in blocks."""
        first, drawn = self._drawn[client]
        if place + steps > first + len(drawn):
            first, index = place, place + np.arange(max(steps, _BLOCK))
            drawn = self._fleet.durations(self._seed, np.array([client]), index)
            self._drawn[client] = first, drawn
        return float(np.cumsum(drawn[place - first : place - first + steps])[-1])

    def _find_next(self) -> None:
        """Make the first arrival the next update, if it is not after the horizon."""
        _, _, client, finish = self._arrivals[0]
        clock = max(self._clock, finish)
        if clock > self._last:
            self.ended = True
            return
        heapq.heappop(self._arrivals)
        busy = self._policy.interaction_time if self._policy.latency == "server" else 0.0
        self._clock = clock + busy
        order, row, update = self._order, self._row[client], self._updates
        job, moved = int(order[row]), int(order[update])
        order[update], order[row] = job, moved
        self._row[int(self._table["client"][moved])] = row
        self._table["used"][job] = self._clock
        self._table["used_by"][job] = update
        self._updates += 1
