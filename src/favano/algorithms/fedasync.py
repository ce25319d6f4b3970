"""FedAsync: the server mixes in every model that arrives (Xie, Koyejo, Gupta 2019)."""

from __future__ import annotations

from dataclasses import dataclass

from favano.algorithms.base import ModelState, Visit, same_rate
from favano.algorithms.staleness import Polynomial, Staleness
from favano.errors import need
from favano.schedule import Arrival
from favano.types import Floats, Ints, Stack, Vector

_SQUARE_ROOT = Polynomial(0.5)  # a = 0.5 in the paper


@dataclass(frozen=True, kw_only=True)
class FedAsync:
    """Every arrival is a server step; the client goes on with the new model.

        alpha_t = alpha sigma(tau),     w <- (1 - alpha_t) w + alpha_t w_new

    alpha is halved once, from a given server step on, where the first update makes step 1.
    alpha_t is a function of the base value, the step and the staleness: nothing decays by
    accident. The clients' proximal term rho (w - w_start) is the local rule's.
    """

    policy: Arrival
    mixing: float = 0.6  # alpha
    halved_at: int | None = 800  # server step; None: never
    staleness: Staleness = _SQUARE_ROOT  # sigma

    def __post_init__(self) -> None:
        need(self.policy.buffer == 1, "buffer", self.policy.buffer, "FedAsync needs 1")
        need(0 < self.mixing <= 1, "mixing", self.mixing, "need a number in (0, 1]")

    def init(self, model: Vector) -> ModelState:
        """Everybody holds w_0."""
        return ModelState(model)

    def update(self, state: ModelState, visit: Visit, start: Stack, end: Stack) -> ModelState:
        """Move towards the client's model."""
        return ModelState(self.average(state.model, end, visit))

    def weight(self, visit: Visit) -> float:
        """alpha_t of the one answer."""
        late = self.halved_at is not None and visit.version + 1 >= self.halved_at
        return self.mixing * (0.5 if late else 1.0) * float(self.staleness(visit.staleness)[0])

    def restart(self, server: Vector, own: Stack) -> None:
        """Clients start every job from a server model."""

    def drift(self, state: ModelState, client: Ints) -> None:
        """Local steps follow the clients' own gradients."""

    def next_steps(self, state: ModelState, client: Ints) -> None:
        """Jobs are as long as planned."""

    def average(self, server: Vector, clients: Stack, visit: Visit) -> Vector:
        """Parameters and buffers alike are mixed with alpha_t."""
        weight = self.weight(visit)
        return (1.0 - weight) * server + weight * clients[0]

    def rate(self, client: Ints) -> Floats:
        """The learning rate itself."""
        return same_rate(client)
