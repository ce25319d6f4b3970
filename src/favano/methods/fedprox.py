"""FedProx: FedAvg whose clients are pulled to where they started (Li, Sahu, Zaheer, ... 2020)."""

from __future__ import annotations

from favano.methods.method import ClientUpdates, Method, ModelState
from favano.options import Rate, option
from favano.policies import Rounds
from favano.types import Stack, Vector


class FedProx(Method[ModelState]):
    """FedAvg's rounds, with local steps that follow f_i(w) + (rho/2) ||w - w_{t-1}||^2.

        w_t = w_{t-1} - eta_g mean_{i in S_t} (w_{t-1} - w_i)

    With `sample_weights` the mean is sum_i N_i (w_{t-1} - w_i) / sum_i N_i, over the N_i samples
    of the clients in S_t: of few clients, large ones get less than their share of all samples.

    rho is `proximal`, a key of local training. With a deadline and `at_deadline="take"` clients
    hand in as many steps as they have made, as in the paper.

    Limitations: a strong pull makes every method with many local steps slow.
    """

    plot_style, linear, any_policy = 12, True, True
    suggests = {"proximal": 0.01}

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
