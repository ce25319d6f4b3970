"""FedAvg: synchronous rounds (McMahan, Moore, Ramage, Hampson, Agüera y Arcas 2017)."""

from __future__ import annotations

from favano.methods.method import ClientUpdates, Method, ModelState
from favano.options import Rate, option
from favano.policies import Rounds
from favano.types import Stack, Vector


class FedAvg(Method[ModelState]):
    """s random clients make K steps each from the server model; the server waits for all of them.

        w_t = w_{t-1} - eta_g mean_{i in S_t} (w_{t-1} - w_i)

    With `sample_weights` the mean is sum_i N_i (w_{t-1} - w_i) / sum_i N_i, over the N_i samples
    of the clients in S_t: of few clients, large ones get less than their share of all samples.

    Limitations: a round is as slow as its slowest client. A client that never finishes stops
    the run; give a deadline.
    """

    plot_style, linear, any_policy = 1, True, True

    server_learning_rate: Rate = option(1.0, "server learning rate", symbol="eta_g")
    sample_weights: bool = option(False, "weight clients by their samples")

    def policy(self) -> Rounds:
        return self.context.rounds()

    def aggregate(self, state: ModelState, updates: ClientUpdates) -> ModelState:
        size = self.context.sizes(self.sample_weights)[updates.client]
        progress = updates.weighted_delta(size / size.sum())
        return ModelState(state.model + self.server_learning_rate * progress)

    def aggregate_buffers(self, server: Vector, clients: Stack, updates: ClientUpdates) -> Vector:
        return clients.mean(0)
