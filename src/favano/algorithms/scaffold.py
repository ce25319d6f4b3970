"""SCAFFOLD: stochastic controlled averaging (Karimireddy, Kale, Mohri, Reddi, ... 2020)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from favano.algorithms.base import Visit, column, same_rate, stacked, zeros
from favano.schedule import Barrier
from favano.types import Floats, Ints, Stack, Vector


class ScaffoldState(NamedTuple):
    """Server model x, the control variate c, and those of the clients that ever took part."""

    model: Vector
    control: Vector
    variates: Mapping[int, Vector]  # c_i, 0 for all others


@dataclass(frozen=True, kw_only=True)
class Scaffold:
    """FedAvg whose local steps are corrected by what is known of everybody's gradients.

        y <- y - eta (g_i(y) - c_i + c),  K times from y = x
        c_i+ = c_i - c + (x - y) / (K eta)                                  (option II)
        x <- x + eta_g mean_{i in S} (y - x),   c <- c + (1/n) sum_{i in S} (c_i+ - c_i)

    so that c = (1/n) sum_i c_i at all times. K is the number of steps really made. Messages hold
    a model and a variate, each way; the server keeps the c_i here, as clients do in the paper.
    """

    policy: Barrier
    clients: int  # n
    server_learning_rate: float = 1.0

    def init(self, model: Vector) -> ScaffoldState:
        """All variates are 0."""
        return ScaffoldState(model, zeros(model), {})

    def update(self, state: ScaffoldState, visit: Visit, start: Stack, end: Stack) -> ScaffoldState:
        """Average the models, and renew the variates of those that took part."""
        equal = column(np.full(len(end), 1.0 / len(end)), end)
        progress = (equal * (end - start)).sum(0)
        length = visit.steps * visit.rate  # K eta
        own = self._own(state, visit.client)
        mean_gradient = (start - end) / column(np.where(length > 0, length, 1.0), end)
        change = column(np.sign(length), end) * (mean_gradient - state.control)  # c_i+ - c_i
        renewed = zip(visit.client.tolist(), own + change, strict=True)
        return ScaffoldState(
            state.model + self.server_learning_rate * progress,
            state.control + change.sum(0) / self.clients,
            {**state.variates, **{client: 1.0 * variate for client, variate in renewed}},
        )

    def drift(self, state: ScaffoldState, client: Ints) -> Stack:
        """c - c_i."""
        return state.control - self._own(state, client)

    def restart(self, server: Vector, own: Stack) -> None:
        """Clients start each round from the server model."""

    def next_steps(self, state: ScaffoldState, client: Ints) -> None:
        """Jobs are as long as planned."""

    def average(self, server: Vector, clients: Stack, visit: Visit) -> Vector:
        """The mean of the s clients; variates know nothing of buffers."""
        return clients.mean(0)

    def rate(self, client: Ints) -> Floats:
        """The learning rate itself."""
        return same_rate(client)

    def _own(self, state: ScaffoldState, client: Ints) -> Stack:
        """c_i of these clients, (k, P)."""
        none = zeros(state.control)
        rows = [state.variates.get(who, none) for who in client.tolist()]
        return stacked(rows, none)
