"""FAVANO: Federated AVeraging with Asynchronous NOdes (Leconte, Nguyen, Moulines; Algorithm 1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from favano.algorithms.base import Visit, average_with_server, column
from favano.algorithms.weights import Reweight, Seen, Weights, alpha, count, nothing_seen
from favano.schedule import Poll
from favano.types import Floats, Ints, Stack, Vector


class FavanoState(NamedTuple):
    """Server model w_t, and what has been seen of the clients (empirical weights only)."""

    model: Vector
    seen: Seen


@dataclass(frozen=True, kw_only=True)
class Favano:
    """At each tick the server asks s random clients for what they have.

        u_i = w_init_i + (w_i - w_init_i) / alpha_i          (w_init_i if client i made no step)
        w_t = (w_{t-1} + sum_{i in S_t} u_i) / (s + 1)

    alpha_i = P(E_i > 0) X_i (stochastic) or E[min(E_i, K)] (deterministic) makes the message an
    unbiased average gradient, whatever the speed of the client. The new model w_t is handed out
    and the visited clients start again from it.
    """

    policy: Poll
    weights: Weights
    reweight: Reweight = "stochastic"
    scaled_rate: bool = False  # client step eta (s+1)/s, as the QuAFL simulator has it

    def init(self, model: Vector) -> FavanoState:
        """Everybody holds w_0."""
        return FavanoState(model, nothing_seen(self.weights))

    def update(self, state: FavanoState, visit: Visit, start: Stack, end: Stack) -> FavanoState:
        """Average the server model with the unbiased client models."""
        divisor = alpha(self.reweight, self.weights, state.seen, visit.client, visit.steps)
        unbiased = start + (end - start) / column(divisor, end)  # (s, P)
        model = (state.model + unbiased.sum(0)) / (len(unbiased) + 1)
        return FavanoState(model, count(self.weights, state.seen, visit.client, visit.steps))

    def restart(self, server: Vector, own: Stack) -> None:
        """Visited clients adopt the new server model."""

    def drift(self, state: FavanoState, client: Ints) -> None:
        """Local steps follow the clients' own gradients."""

    def next_steps(self, state: FavanoState, client: Ints) -> None:
        """Jobs are as long as planned."""

    def average(self, server: Vector, clients: Stack, visit: Visit) -> Vector:
        """Buffers take the weights of the models."""
        return average_with_server(server, clients)

    def rate(self, client: Ints) -> Floats:
        """The learning rate itself, unless scaled."""
        s = self.policy.selected
        return np.full(len(client), (s + 1) / s if self.scaled_rate else 1.0)
