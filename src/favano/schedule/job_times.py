"""How long jobs take, drawn for many jobs at once."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate

import numpy as np

from favano.rng import Stream, bits
from favano.schedule.draws import blocks, job_ends, step_ends
from favano.timing import ClientSpeeds
from favano.types import Floats, Ints

_AT_ONCE = 512  # jobs of a client that are drawn at first, at most
_STEPS_AT_ONCE = 1024  # steps of a client that are drawn at once for jobs of other lengths


class JobTimes:
    """Durations of each client's jobs, and the random keys that order equal arrivals.

    Of jobs of K steps after others of K steps, about as many as needed are drawn for all clients
    at once, and more in growing blocks. For jobs of other lengths the next steps of a client are
    drawn, in growing blocks too.
    """

    def __init__(
        self, fleet: ClientSpeeds, most: Ints, jobs: Floats, seed: int
    ) -> None:  # most: (n,) K of each client; jobs: (n,) that it is expected to make
        self._fleet, self._seed = fleet, seed
        self._most, self._most_of = most, most.tolist()
        self._length: list[list[float]] = [[] for _ in range(fleet.clients)]
        self._tie: list[list[int]] = [[] for _ in range(fleet.clients)]
        self._streams: list[int] = fleet.streams.tolist()
        # First draw, and durations from there on; by client.
        self._next_steps: dict[int, tuple[int, list[float]]] = {}
        enough = np.minimum(1.5 * jobs + 3, _AT_ONCE)
        drawn = 2 ** np.ceil(np.log2(enough)).astype(np.int64)
        for stop in np.unique(drawn).tolist():
            clients = np.flatnonzero(drawn == stop)
            for part in blocks(len(clients), stop * int(most.max())):
                self._extend(clients[part], 0, stop)

    def of(self, client: int, number: int, place: int, steps: int) -> tuple[float, int]:
        """Duration and key of a client's job of this number.

        Args:
            client: who.
            number: of the job among the client's.
            place: its first draw of a step time.
            steps: local steps.
        """
        if place == number * (most := self._most_of[client]) and steps == most:
            lengths = self._length[client]
            if number >= len(lengths):
                self._extend(np.array([client]), len(lengths), 2 * number)
            return lengths[number], self._tie[client][number]
        ties = self._tie[client]
        if number >= len(ties):
            more = np.arange(len(ties), 2 * number + 1)
            ties += bits(self._seed, Stream.ASSIGNMENT, self._streams[client], more).tolist()
        return self._time_of_steps(client, place, steps), ties[number]

    def _time_of_steps(self, client: int, place: int, steps: int) -> float:
        """How long a client's steps from this draw on take."""
        first, durations = self._next_steps.get(client, (0, []))
        if not first <= place <= first + len(durations) - steps:
            count = max(steps, min(max(4 * steps, 2 * len(durations)), _STEPS_AT_ONCE))
            who, index = np.array([[client]]), place + np.arange(count)[None]
            first, durations = place, self._fleet.durations(self._seed, who, index)[0].tolist()
            self._next_steps[client] = first, durations
        begin = place - first
        *_, end = accumulate(durations[begin : begin + steps])  # `sum` would round less
        return end

    def prepare(self, clients: Iterable[int], numbers: Iterable[int]) -> None:
        """Draw the jobs of these numbers for many clients at once."""
        short: dict[int, list[int]] = {}
        for client, number in zip(clients, numbers, strict=True):
            if number >= len(self._length[client]):
                short.setdefault(len(self._length[client]), []).append(client)
        for first, some in short.items():
            self._extend(np.array(some), first, 2 * first)

    def _extend(self, clients: Ints, first: int, stop: int) -> None:
        client = np.repeat(clients, stop - first)
        number = np.tile(np.arange(first, stop), len(clients))
        steps = self._most[client]
        ends = job_ends(step_ends(self._fleet, client, number * steps, steps, self._seed), steps)
        tie = bits(self._seed, Stream.ASSIGNMENT, self._fleet.streams[client], number)
        lengths, ties = (values.reshape(len(clients), -1) for values in (ends, tie))
        for who, length, key in zip(clients.tolist(), lengths, ties, strict=True):
            self._length[who] += length.tolist()
            self._tie[who][first:] = key.tolist()
