"""SCAFFOLD: stochastic controlled averaging (Karimireddy, Kale, Mohri, Reddi, ... 2020)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from favano.methods.arrays import column, stacked, zeros
from favano.methods.method import ClientUpdates, Method
from favano.options import Rate, option
from favano.policies import Rounds
from favano.types import Ints, Stack, Vector


class ScaffoldState(NamedTuple):
    """Server model x, the control variate c, and those of the clients that ever took part."""

    model: Vector
    control: Vector
    variates: Mapping[int, Vector]  # c_i, 0 for all others


class Scaffold(Method[ScaffoldState]):
    """FedAvg whose local steps are corrected by what is known of everybody's gradients.

        y <- y - eta (g_i(y) - c_i + c),  K times from y = x
        c_i+ = c_i - c + (x - y) / (K eta)                                  (option II)
        x <- x + eta_g mean_{i in S} (y - x),   c <- c + (1/n) sum_{i in S} (c_i+ - c_i)

    so that c = (1/n) sum_i c_i at all times. K is the number of steps really made. Messages hold
    a model and a variate, each way; the server keeps the c_i here, as clients do in the paper.
    With `sample_weights` the mean over S is weighted by samples, and 1/n is the client's share p_i
    of all samples: c = sum_i p_i c_i.

    Limitations: the c_i of clients that seldom take part are old. Messages are twice as long.
    """

    title, plot_style, linear = "SCAFFOLD", 10, True

    server_learning_rate: Rate = option(1.0, "server learning rate", symbol="eta_g")
    sample_weights: bool = option(False, "weight clients by their samples")

    def policy(self) -> Rounds:
        return self.context.rounds()

    def init(self, model: Vector) -> ScaffoldState:
        return ScaffoldState(model, zeros(model), {})

    def aggregate(self, state: ScaffoldState, updates: ClientUpdates) -> ScaffoldState:
        start, end = updates.start, updates.end
        size = self.context.sizes(self.sample_weights)[updates.client]
        progress = updates.weighted_delta(size / size.sum())
        length = updates.steps * updates.rate  # K eta
        own = self._own(state, updates.client)
        mean_gradient = (start - end) / column(np.where(length > 0, length, 1.0), end)
        change = column(np.sign(length), end) * (mean_gradient - state.control)  # c_i+ - c_i
        weighed = change
        if self.sample_weights:
            weighed = column(self.context.relative_sizes[updates.client], end) * change
        renewed = zip(updates.client.tolist(), own + change, strict=True)
        return ScaffoldState(
            state.model + self.server_learning_rate * progress,
            state.control + weighed.sum(0) / self.context.clients,
            {**state.variates, **{client: 1.0 * variate for client, variate in renewed}},
        )

    def gradient_correction(self, state: ScaffoldState, client: Ints) -> Stack:
        return state.control - self._own(state, client)  # c - c_i

    def aggregate_buffers(self, server: Vector, clients: Stack, updates: ClientUpdates) -> Vector:
        return clients.mean(0)

    def _own(self, state: ScaffoldState, client: Ints) -> Stack:
        """c_i of these clients, (k, P)."""
        none = zeros(state.control)
        return stacked([state.variates.get(who, none) for who in client.tolist()], none)
