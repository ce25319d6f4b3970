"""QuAFL; its lattice codec is the link's business (Zakerinia, Talaei, Nadiradze, Alistarh 2022)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from favano.algorithms.base import ModelState, Visit, average_with_server, copies
from favano.schedule import Poll
from favano.types import Floats, Ints, Stack, Vector


@dataclass(frozen=True, kw_only=True)
class Quafl:
    """At each tick server and s random clients mix their models; clients never start again.

        w_t = (w_{t-1} + sum_{i in S_t} y_i) / (s + 1)
        y_i <- (w_{t-1} + s y_i) / (s + 1)

    The old model w_{t-1} is handed out: only then do gradients alone move the sum of all models.
    """

    policy: Poll
    scaled_rate: bool = True  # client step eta (s+1)/s, as in the authors' simulator
    client_averaging: bool = True  # off: a visited client adopts w_{t-1}
    server_averaging: bool = True  # off: the server takes the mean of the clients alone
    dampening: Floats | None = None  # (n,) expected steps H_i: client steps scaled by H_min / H_i

    def init(self, model: Vector) -> ModelState:
        """Everybody holds w_0."""
        return ModelState(model)

    def update(self, state: ModelState, visit: Visit, start: Stack, end: Stack) -> ModelState:
        """Average the live client models with the server's."""
        return ModelState(self.average(state.model, end, visit))

    def restart(self, server: Vector, own: Stack) -> Stack:
        """Visited clients keep s/(s+1) of their own model."""
        if not self.client_averaging:
            return copies(server, own)
        s = self.policy.selected
        return (server + s * own) / (s + 1)

    def drift(self, state: ModelState, client: Ints) -> None:
        """Local steps follow the clients' own gradients."""

    def next_steps(self, state: ModelState, client: Ints) -> None:
        """Jobs are as long as planned."""

    def average(self, server: Vector, clients: Stack, visit: Visit) -> Vector:
        """Parameters and buffers alike."""
        return average_with_server(server, clients) if self.server_averaging else clients.mean(0)

    def rate(self, client: Ints) -> Floats:
        """(s+1)/s makes up for the server's share in the average."""
        s = self.policy.selected
        factor = (s + 1) / s if self.scaled_rate and self.server_averaging else 1.0
        if self.dampening is None:
            return np.full(len(client), factor)
        return np.asarray(factor * self.dampening.min() / self.dampening[client])
