"""FedAvg: synchronous rounds (McMahan, Moore, Ramage, Hampson, Agüera y Arcas 2017)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from favano.algorithms.base import ModelState, Visit, column, same_rate
from favano.schedule import Barrier
from favano.types import Floats, Ints, Stack, Vector


@dataclass(frozen=True, kw_only=True)
class FedAvg:
    """s random clients make K steps each from the server model; the server waits for all of them.

        w_t = w_{t-1} - eta_g mean_{i in S_t} (w_{t-1} - w_i)

    With `samples` the mean is weighted by the clients' numbers of samples.
    """

    policy: Barrier
    server_learning_rate: float = 1.0
    samples: Floats | None = None  # (n,)

    def init(self, model: Vector) -> ModelState:
        """Clients hold nothing between rounds."""
        return ModelState(model)

    def update(self, state: ModelState, visit: Visit, start: Stack, end: Stack) -> ModelState:
        """Move to the mean of the client models, as far as eta_g says."""
        share = np.ones(len(end)) if self.samples is None else self.samples[visit.client]
        progress = (column(share / share.sum(), end) * (end - start)).sum(0)
        return ModelState(state.model + self.server_learning_rate * progress)

    def restart(self, server: Vector, own: Stack) -> None:
        """Clients start each round from the server model."""

    def drift(self, state: ModelState, client: Ints) -> None:
        """Local steps follow the clients' own gradients."""

    def next_steps(self, state: ModelState, client: Ints) -> None:
        """Jobs are as long as planned."""

    def average(self, server: Vector, clients: Stack, visit: Visit) -> Vector:
        """The mean of the s clients: the server has no part in it."""
        return clients.mean(0)

    def rate(self, client: Ints) -> Floats:
        """The learning rate itself."""
        return same_rate(client)
