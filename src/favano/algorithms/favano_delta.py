"""FAVANO-delta, an extension that is not in the paper: only the progress is averaged."""

from __future__ import annotations

from dataclasses import dataclass

from favano.algorithms.base import Visit, average_with_server, column, same_rate
from favano.algorithms.favano import FavanoState
from favano.algorithms.weights import Reweight, Weights, alpha, count, nothing_seen
from favano.schedule import Poll
from favano.types import Floats, Ints, Stack, Vector


@dataclass(frozen=True, kw_only=True)
class FavanoDelta:
    """FAVANO's polling, interruption and reweighting without the pull of stale start models.

        w_t = w_{t-1} + eta_g mean_{i in S_t} (w_i - w_init_i) / alpha_i

    Differs from the paper: the server adds the mean of the reweighted progress to its own model
    instead of averaging it with the clients' start models.
    """

    policy: Poll
    weights: Weights
    reweight: Reweight = "stochastic"
    server_learning_rate: float = 1.0

    def init(self, model: Vector) -> FavanoState:
        """Everybody holds w_0."""
        return FavanoState(model, nothing_seen(self.weights))

    def update(self, state: FavanoState, visit: Visit, start: Stack, end: Stack) -> FavanoState:
        """Add the mean unbiased progress."""
        divisor = alpha(self.reweight, self.weights, state.seen, visit.client, visit.steps)
        progress = (end - start) / column(divisor, end)  # (s, P)
        model = state.model + self.server_learning_rate * progress.mean(0)
        return FavanoState(model, count(self.weights, state.seen, visit.client, visit.steps))

    def restart(self, server: Vector, own: Stack) -> None:
        """Visited clients adopt the new server model."""

    def drift(self, state: FavanoState, client: Ints) -> None:
        """Local steps follow the clients' own gradients."""

    def next_steps(self, state: FavanoState, client: Ints) -> None:
        """Jobs are as long as planned."""

    def average(self, server: Vector, clients: Stack, visit: Visit) -> Vector:
        """As FAVANO."""
        return average_with_server(server, clients)

    def rate(self, client: Ints) -> Floats:
        """The learning rate itself."""
        return same_rate(client)
