"""How long jobs take, drawn for many jobs at once."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from favano.rng import Stream, bits, word
from favano.schedule.draws import blocks, job_ends, step_ends
from favano.timing import ClientSpeeds
from favano.types import Floats, Ints

_AT_ONCE = 512  # jobs of a client that are drawn at first, at most


class JobTimes:
    """Durations of each client's jobs, and the random keys that order equal arrivals.

    Of jobs of K steps after others of K steps, about as many as needed are drawn for all clients
    at once, and more in growing blocks.
    """

    def __init__(
        self, fleet: ClientSpeeds, most: Ints, jobs: Floats, seed: int
    ) -> None:  # most: (n,) K of each client; jobs: (n,) that it is expected to make
        self._fleet, self._seed = fleet, seed
        self._most, self._most_of = most, most.tolist()
        self._length: list[list[float]] = [[] for _ in range(fleet.clients)]
        self._tie: list[list[int]] = [[] for _ in range(fleet.clients)]
        self._streams: list[int] = fleet.streams.tolist()
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
        who, first, length = np.array([[client], [place], [steps]])
        drawn = step_ends(self._fleet, who, first, length, self._seed)
        tie = word(self._seed, Stream.ASSIGNMENT, self._streams[client], number) % 2**64
        return float(drawn[0, -1]), tie

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
            self._tie[who] += key.tolist()
