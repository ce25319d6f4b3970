"""FedProx: FedAvg whose clients are pulled to where they started (Li, Sahu, Zaheer, ... 2020)."""

from __future__ import annotations

from favano.methods.method import Answers, Method, ModelState
from favano.options import Rate, option
from favano.schedule import Barrier
from favano.types import Stack, Vector


class FedProx(Method[ModelState]):
    """FedAvg's rounds, with local steps that follow f_i(w) + (rho/2) ||w - w_{t-1}||^2.

        w_t = w_{t-1} - eta_g mean_{i in S_t} (w_{t-1} - w_i)

    rho is `proximal`, a key of local training. With a deadline and `at_deadline="take"` clients
    hand in as many steps as they have made, as in the paper.

    Known to go wrong: a strong pull makes every method with many local steps slow.
    """

    look, linear = 12, True
    suggests = {"proximal": 0.01}

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
