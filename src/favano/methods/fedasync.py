"""FedAsync: the server mixes in every model that arrives (Xie, Koyejo, Gupta 2019)."""

from __future__ import annotations

from favano.methods.method import ClientUpdates, Method, ModelState
from favano.methods.staleness import SQUARE_ROOT, StalenessRule, parse_staleness
from favano.options import Count, PositiveUnitInterval, Whole, option
from favano.policies import Buffered, Latency
from favano.types import Stack, Vector


class FedAsync(Method[ModelState]):
    """Every arrival is a server step; the client goes on with the new model.

        alpha_t = alpha sigma(tau),     w <- (1 - alpha_t) w + alpha_t w_new

    alpha is halved once, from a given server step on, where the first update makes step 1.
    alpha_t is a function of the base value, the step and the staleness: nothing decays by
    accident. tau is 0 for an update from the newest model, where t - tau of its Algorithm 1 is 1
    (`staleness_from_one`). Several updates in one server step, as another policy may use them, are
    taken in one after the other. The clients' proximal term rho (w - w_start) is `proximal` of
    local training.

    Limitations: the model is mostly that of the last few clients, and fast ones come more
    often, so it forgets what slow clients hold.
    """

    plot_style, linear, any_policy = 6, True, True
    policy_options = ("max_staleness", "concurrency", "latency")
    suggests = {"proximal": 0.005}
    meaningless = {"sample_weights": "it mixes in one model at a time, and averages nothing"}

    mixing: PositiveUnitInterval = option(0.6, "weight of a fresh model", symbol="alpha")
    halve_mixing_at: Whole = option(
        800, "server step that halves the weight; 0: none", source="its paper"
    )
    staleness: StalenessRule = option(
        SQUARE_ROOT,
        "weight of a stale update: constant, polynomial:A or hinge:A:B",
        symbol="sigma",
        source="its paper",
    )
    staleness_from_one: bool = option(
        False, "count a fresh update as 1 step old, as its Algorithm 1 does"
    )
    max_staleness: Whole | None = option(None, "drop client updates that are staler than this")
    concurrency: Count | None = option(None, "clients at work at a time", otherwise="all")
    latency: Latency = option("client", "who is busy during a communication")

    def policy(self) -> Buffered:
        return self.context.buffered(
            concurrency=self.concurrency or self.context.clients,
            latency=self.latency,
            max_staleness=self.max_staleness,
        )

    def aggregate(self, state: ModelState, updates: ClientUpdates) -> ModelState:
        return ModelState(self.aggregate_buffers(state.model, updates.end, updates))

    def aggregate_buffers(self, server: Vector, clients: Stack, updates: ClientUpdates) -> Vector:
        for place, weight in enumerate(self.weights(updates)):
            server = (1.0 - weight) * server + weight * clients[place]
        return server

    def weights(self, updates: ClientUpdates) -> list[float]:
        """alpha_t of each client update."""
        late = self.halve_mixing_at > 0 and updates.version + 1 >= self.halve_mixing_at
        age = updates.staleness + int(self.staleness_from_one)
        mixing = self.mixing * (0.5 if late else 1.0)
        return [mixing * sigma for sigma in parse_staleness(self.staleness)(age).tolist()]
