"""A fleet: the speed and the random stream of each client, and what they meet."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Literal

import numpy as np

from favano.errors import require
from favano.rng import Stream, bits
from favano.timing.conditions import IDEAL, Conditions, Energy
from favano.timing.laws import Geometric, StepLaw, Trace
from favano.types import Floats, Ints

Rounding = Literal["nearest", "ceil-slow"]
Order = Literal["random", "slow-first"]


@dataclass(frozen=True)
class ClientSpeeds:
    """n clients. A client's draws depend on its stream, not on its number."""

    mean: Floats  # (n,) mean duration of a local step
    law: StepLaw
    streams: Ints  # (n,)
    conditions: Conditions = IDEAL
    energy: Energy | None = None  # None: it is not counted

    def __post_init__(self) -> None:
        require(len(self.mean) > 0, "clients", len(self.mean), "need at least 1")
        same = len(self.streams) == len(self.mean)
        require(same, "streams", len(self.streams), "need one per client")
        self.law.check(self.mean)

    @property
    def clients(self) -> int:
        """Number of clients n."""
        return len(self.mean)

    @property
    def groups(self) -> Ints:
        """Speed class of each client, 0 the fastest; clients of equal mean share a class."""
        return np.unique(self.mean, return_inverse=True)[1].astype(np.int64)

    @property
    def alike(self) -> Ints:
        """Number of each client's law of step times; clients with the same law share it."""
        if not isinstance(self.law, Trace):
            return self.groups
        number: dict[bytes, int] = {}
        rows = (self.law.rows[stream].tobytes() for stream in self.streams.tolist())
        return np.array([number.setdefault(row, len(number)) for row in rows])

    def durations(self, seed: int, client: Ints, index: Ints) -> Floats:
        """Durations of the clients' draws number `index`, broadcast over both."""
        return self.law.draw(seed, self.streams[client], index, self.mean[client])


def client_speeds(mean: Floats, law: StepLaw | None = None) -> ClientSpeeds:
    """A fleet with the given mean step time of each client."""
    means = np.asarray(mean, dtype=np.float64)
    return ClientSpeeds(means, law or Geometric(), np.arange(len(means)))


def traced_fleet(trace: Trace) -> ClientSpeeds:
    """One client for each row of a recorded trace."""
    return ClientSpeeds(trace.means(), trace, np.arange(len(trace.rows)))


def two_speeds(
    clients: int,
    *,
    fast_fraction: float = 2 / 3,
    fast_mean: float = 2.0,
    slow_mean: float = 16.0,
    law: StepLaw | None = None,
    seed: int = 0,
    rounding: Rounding = "nearest",
    order: Order = "random",
) -> ClientSpeeds:
    """The paper's fleet: a fraction of fast clients, the others slow, drawn at random.

    `rounding="ceil-slow"` and `order="slow-first"` are those of the public QuAFL simulator.

    >>> (two_speeds(100).mean == 16).sum(), (two_speeds(100, fast_fraction=1 / 9).mean == 2).sum()
    (np.int64(33), np.int64(11))
    """
    require(clients >= 1, "clients", clients, "need at least 1")
    require(0 <= fast_fraction <= 1, "fast_fraction", fast_fraction, "need 0..1")
    fast = round(fast_fraction * clients)
    if rounding == "ceil-slow":
        fast = clients - ceil((1 - fast_fraction) * clients - 1e-9)
    streams = np.arange(clients)
    ranked = dealt(seed, clients) if order == "random" else streams[::-1]
    mean = np.full(clients, slow_mean, dtype=np.float64)
    mean[ranked[:fast]] = fast_mean
    return ClientSpeeds(mean, law or Geometric(), streams)


def dealt(seed: int, clients: int) -> Ints:
    """Clients 0..n-1 in the random order in which they are dealt to speeds or groups."""
    return np.argsort(bits(seed, Stream.SPEED, np.arange(clients)))
