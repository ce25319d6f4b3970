"""FedAvg: synchronous rounds (McMahan, Moore, Ramage, Hampson, Agüera y Arcas 2017)."""

from __future__ import annotations

from favano.methods.method import Answers, Method, ModelState
from favano.options import Rate, option
from favano.schedule import Barrier
from favano.types import Stack, Vector


class FedAvg(Method[ModelState]):
    """s random clients make K steps each from the server model; the server waits for all of them.

        w_t = w_{t-1} - eta_g mean_{i in S_t} (w_{t-1} - w_i)

    Known to go wrong: a round is as slow as its slowest client. A client that never finishes stops
    the run; give a deadline.
    """

    look, linear = 1, True

    server_learning_rate: Rate = option(1.0, "step of the server", symbol="eta_g")
    sample_weights: bool = option(False, "weight clients by their samples")

    def policy(self) -> Barrier:
        return self.world.rounds()

    def update(self, state: ModelState, answers: Answers) -> ModelState:
        size = self.world.sizes(self.sample_weights)[answers.client]
        progress = answers.progress(size / size.sum())
        return ModelState(state.model + self.server_learning_rate * progress)

    def average(self, server: Vector, clients: Stack, answers: Answers) -> Vector:
        return clients.mean(0)
