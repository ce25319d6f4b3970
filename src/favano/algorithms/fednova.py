"""FedNova: averaging of progress a step (Wang, Liu, Liang, Joshi, Poor 2020)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from favano.algorithms.base import ModelState, Visit, column, same_rate
from favano.schedule import Barrier
from favano.types import Floats, Ints, Stack, Vector


@dataclass(frozen=True, kw_only=True)
class FedNova:
    """FedAvg that does not favour clients that made more steps tau_i.

        w_t = w_{t-1} - eta_g tau_eff sum_{i in S_t} p_i (w_{t-1} - w_i) / tau_i
        tau_eff = sum_{i in S_t} p_i tau_i

    With equally many steps it is FedAvg. They differ where a deadline cuts jobs short
    (`at_deadline="take"`). p_i is 1/s, or the share of the clients' numbers of samples.
    """

    policy: Barrier
    server_learning_rate: float = 1.0
    samples: Floats | None = None  # (n,)

    def init(self, model: Vector) -> ModelState:
        """Clients hold nothing between rounds."""
        return ModelState(model)

    def update(self, state: ModelState, visit: Visit, start: Stack, end: Stack) -> ModelState:
        """Move by the mean progress a step, times the mean number of steps."""
        size = np.ones(len(end)) if self.samples is None else self.samples[visit.client]
        share = size / size.sum()
        weight = (share @ visit.steps) * share / np.maximum(visit.steps, 1)
        progress = (column(weight, end) * (end - start)).sum(0)
        return ModelState(state.model + self.server_learning_rate * progress)

    def restart(self, server: Vector, own: Stack) -> None:
        """Clients start each round from the server model."""

    def drift(self, state: ModelState, client: Ints) -> None:
        """Local steps follow the clients' own gradients."""

    def next_steps(self, state: ModelState, client: Ints) -> None:
        """Jobs are as long as planned."""

    def average(self, server: Vector, clients: Stack, visit: Visit) -> Vector:
        """The mean of the s clients."""
        return clients.mean(0)

    def rate(self, client: Ints) -> Floats:
        """The learning rate itself."""
        return same_rate(client)
