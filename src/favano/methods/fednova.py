"""FedNova: averaging of progress per step (Wang, Liu, Liang, Joshi, Poor 2020)."""

from __future__ import annotations

import numpy as np

from favano.methods.method import ClientUpdates, Method, ModelState
from favano.options import Rate, option
from favano.policies import Rounds
from favano.types import Stack, Vector


class FedNova(Method[ModelState]):
    """FedAvg that does not favour clients that made more steps tau_i.

        w_t = w_{t-1} - eta_g tau_eff sum_{i in S_t} p_i (w_{t-1} - w_i) / ||a_i||
        tau_eff = sum_{i in S_t} p_i ||a_i||, or with a proximal term sum_{i in S_t} p_i tau_i

    ||a_i|| is the weight of all gradients of a job: tau_i for plain SGD, more with momentum, less
    with a proximal term; with Adam, tau_i. p_i is 1/s or, with `sample_weights`, N_i / sum_j N_j
    over the samples of the clients in S_t. With equally many steps and no proximal term it is
    FedAvg. They differ where clients make local epochs or have a K of their own, and where a
    deadline cuts jobs short (`at_deadline="take"`).

    Limitations: as FedAvg, a round is as slow as its slowest client.
    """

    plot_style, linear, any_policy = 13, True, True

    server_learning_rate: Rate = option(1.0, "server learning rate", symbol="eta_g")
    sample_weights: bool = option(False, "weight clients by their samples")

    def policy(self) -> Rounds:
        return self.context.rounds()

    def aggregate(self, state: ModelState, updates: ClientUpdates) -> ModelState:
        size = self.context.sizes(self.sample_weights)[updates.client]
        share = size / size.sum()
        norm = self.context.accumulation.norm(updates.steps, updates.rate)
        length = updates.steps if self.context.accumulation.proximal else norm  # as in their code
        weight = (share @ length) * share / np.where(norm > 0, norm, 1.0)
        return ModelState(state.model + self.server_learning_rate * updates.weighted_delta(weight))

    def aggregate_buffers(self, server: Vector, clients: Stack, updates: ClientUpdates) -> Vector:
        return clients.mean(0)
