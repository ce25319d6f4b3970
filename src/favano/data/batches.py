"""Each client's endless stream of mini-batches, readable at any position.

A batch is a function of (seed, client's stream, step). Reading it changes no state, so training
clients together, replaying and resuming use the same batches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

import numpy as np

from favano.errors import require
from favano.rng import Stream, permutation, uniform
from favano.types import Ints

Order: TypeAlias = Literal["epoch", "continuous", "replacement"]


@dataclass(frozen=True, eq=False)
class BatchStream:
    """Mini-batches of all clients.

    Args:
        parts: the samples of each client, none of them empty.
        batch_size: samples in a full batch.
        seed: of all orders.
        streams: the random stream of each client, by default its number. Clients that are
            renumbered together with their streams keep their batches.
        order: `epoch` shuffles the client's samples in each epoch and keeps the last, short batch;
            `continuous` joins the epochs, so that every batch is full; `replacement` draws every
            sample of a batch independently.

    >>> stream = BatchStream([np.arange(5), np.arange(5, 9)], batch_size=3, seed=0)
    >>> sorted(np.concatenate([stream.indices(0, 0), stream.indices(0, 1)]).tolist())
    [0, 1, 2, 3, 4]
    """

    parts: Sequence[Ints]
    batch_size: int
    seed: int
    streams: Ints | None = None
    order: Order = "epoch"
    _last: dict[tuple[int, int], Ints] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        require(self.batch_size >= 1, "batch_size", self.batch_size, "need 1 or more")
        known = get_args(Order)
        require(self.order in known, "order", self.order, f"need one of {', '.join(known)}")
        empty = [client for client, part in enumerate(self.parts) if len(part) == 0]
        require(not empty, "parts", empty, "clients without samples: need at least one sample each")
        if self.streams is not None:
            given, clients = len(self.streams), len(self.parts)
            require(given == clients, "streams", given, f"need one per client ({clients})")

    def indices(self, client: int, step: int, steps: int = 1) -> Ints:
        """Samples of `steps` mini-batches of the client's stream, the first of them number `step`.

        (batch,), or the batches one after the other.
        """
        part, size = self.parts[client], len(self.parts[client])
        begin, end = self._begin(client, step), self._begin(client, step + steps)
        if self.order == "replacement":
            drawn = uniform(self.seed, Stream.BATCHES, self.stream(client), np.arange(begin, end))
            return part[(drawn * size).astype(np.int64)]
        epochs = range(begin // size, -(-end // size))
        orders = [self.epoch_order(client, epoch) for epoch in epochs]
        joined = orders[0] if len(orders) == 1 else np.concatenate(orders)
        return joined[begin - epochs.start * size : end - epochs.start * size]

    def length(self, client: int, step: int) -> int:
        """Number of samples in that mini-batch."""
        return self._begin(client, step + 1) - self._begin(client, step)

    def _begin(self, client: int, step: int) -> int:
        """Number of samples in the client's stream before that mini-batch."""
        if self.order != "epoch":
            return step * self.batch_size
        size = len(self.parts[client])
        epoch, place = divmod(step, -(-size // self.batch_size))
        return epoch * size + place * self.batch_size

    def lengths(self) -> dict[int, float]:
        """All lengths of batches, each with its share of the batches; clients count equally."""
        if self.order != "epoch":
            return {self.batch_size: 1.0}
        sizes, clients = np.unique([len(part) for part in self.parts], return_counts=True)
        shares: Counter[int] = Counter()
        for size, count in zip(sizes.tolist(), (clients / len(self.parts)).tolist(), strict=True):
            full, rest = divmod(size, self.batch_size)
            shares[self.batch_size] += count * full / (full + (rest > 0))
            shares[rest] += count * (rest > 0) / (full + (rest > 0))
        return {length: share for length, share in shares.items() if share > 0}

    def epoch_order(self, client: int, epoch: int) -> Ints:
        """The client's samples in the order of one epoch."""
        order = self._last.get((client, epoch))
        if order is None:
            part, stream = self.parts[client], self.stream(client)
            order = part[permutation(self.seed, Stream.BATCHES, len(part), stream, epoch)]
            self._last.clear()  # keep one order in all, not one per client
            self._last[client, epoch] = order
        return order

    def stream(self, client: int) -> int:
        """Number of the client's random stream."""
        return client if self.streams is None else int(self.streams[client])
