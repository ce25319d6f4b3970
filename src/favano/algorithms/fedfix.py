"""FedFix: whatever has come back at each tick (Fraboni, Vidal, Kameni, Lorenzi 2023)."""

from __future__ import annotations

from dataclasses import dataclass

from favano.algorithms.base import ModelState, Visit, average_with_server, column, same_rate
from favano.schedule import Window
from favano.types import Floats, Ints, Stack, Vector


@dataclass(frozen=True, kw_only=True)
class FedFix:
    """Every dt the server adds the weighted progress of all clients that are back.

        w <- w + eta_g sum_{i back} d_i (w_i_end - w_i_start),     d_i = E[ceil(T_i / dt)] p_i

    A client whose jobs last T_i takes part in one tick out of E[ceil(T_i / dt)], so that over
    time each moves the model by its importance p_i. With `windows` all 1 the weights are
    identical and fast clients count more.
    """

    policy: Window
    importance: Floats  # (n,) p_i, of sum 1
    windows: Floats  # (n,) E[ceil(T_i / dt)]
    server_learning_rate: float = 1.0

    def init(self, model: Vector) -> ModelState:
        """Everybody holds w_0."""
        return ModelState(model)

    def update(self, state: ModelState, visit: Visit, start: Stack, end: Stack) -> ModelState:
        """Add the progress of those that are back."""
        weight = self.windows[visit.client] * self.importance[visit.client]
        progress = (column(weight, end) * (end - start)).sum(0)
        return ModelState(state.model + self.server_learning_rate * progress)

    def restart(self, server: Vector, own: Stack) -> None:
        """Those that are back adopt the new server model."""

    def drift(self, state: ModelState, client: Ints) -> None:
        """Local steps follow the clients' own gradients."""

    def next_steps(self, state: ModelState, client: Ints) -> None:
        """Jobs are as long as planned."""

    def average(self, server: Vector, clients: Stack, visit: Visit) -> Vector:
        """The mean of the server's and the clients' buffers."""
        return average_with_server(server, clients)

    def rate(self, client: Ints) -> Floats:
        """The learning rate itself."""
        return same_rate(client)
