"""AsyncSGD: a server step for every gradient that arrives (Koloskova, Stich, Jaggi 2022)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from favano.algorithms.base import ModelState, Visit, average_with_server, column, same_rate
from favano.schedule import Arrival
from favano.types import Floats, Ints, Stack, Vector

DelayRule = Literal["none", "scale", "drop"]


@dataclass(frozen=True, kw_only=True)
class AsyncSGD:
    """x <- x - eta_s gamma(tau) (x_start - x_end), for one arrival at a time.

    A client's answer is one SGD step (K with `local_steps`), so x_start - x_end = eta g. With the
    policy's `hand_out="uniform"` (Algorithm 2 of the paper) the next job goes to a client drawn
    uniformly, queueing if it is busy, which is what keeps the method unbiased; with "flush" the
    finishing client goes on with the new model (Algorithm 1). gamma is

        none    1
        scale   M / max(M, tau)            (Mishchenko, Bach, Even, Woodworth 2022)
        drop    1 if tau <= M, else 0      (Koloskova et al., delay-adaptive, M = tau_C)

    where M is the number of jobs under way.
    """

    policy: Arrival
    concurrency: int  # M, tau_C
    server_learning_rate: float = 1.0
    delays: DelayRule = "none"

    def init(self, model: Vector) -> ModelState:
        """The initial model is out with `concurrency` clients."""
        return ModelState(model)

    def update(self, state: ModelState, visit: Visit, start: Stack, end: Stack) -> ModelState:
        """Apply the gradient, however old it is."""
        step = column(self.factor(visit.staleness), end) * (start - end)
        return ModelState(state.model - self.server_learning_rate * step.sum(0))

    def factor(self, staleness: Ints) -> Floats:
        """gamma(tau)."""
        if self.delays == "scale":
            return np.asarray(self.concurrency / np.maximum(self.concurrency, staleness))
        if self.delays == "drop":
            return np.where(staleness <= self.concurrency, 1.0, 0.0)
        return np.ones(len(staleness))

    def restart(self, server: Vector, own: Stack) -> None:
        """Clients start every job from a server model."""

    def drift(self, state: ModelState, client: Ints) -> None:
        """Local steps follow the clients' own gradients."""

    def next_steps(self, state: ModelState, client: Ints) -> None:
        """Jobs are as long as planned."""

    def average(self, server: Vector, clients: Stack, visit: Visit) -> Vector:
        """The mean of the server's and the client's buffers."""
        return average_with_server(server, clients)

    def rate(self, client: Ints) -> Floats:
        """The learning rate itself."""
        return same_rate(client)
