"""FAVANO-delta: only the progress is averaged (an extension that is not in the paper)."""

from __future__ import annotations

from functools import cached_property

from favano.methods.arrays import column
from favano.methods.favano import FavanoState
from favano.methods.method import ClientUpdates, Method
from favano.methods.weights import (
    GIVEN_TEXT,
    REWEIGHT_TEXT,
    SOURCE_OTHERWISE,
    SOURCE_TEXT,
    Reweight,
    Weights,
    WeightSource,
    alpha,
    check_weights,
    count,
    nothing_seen,
    step_weights,
)
from favano.options import PositiveTime, Rate, option
from favano.policies import Polling
from favano.types import Vector


class FavanoDelta(Method[FavanoState]):
    """FAVANO's polling, interruption and reweighting without the pull of stale start models.

        w_t = w_{t-1} + eta_g mean_{i in S_t} (w_i - w_init_i) / alpha_i

    Differs from the paper: the server adds the mean of the reweighted progress to its own model
    instead of averaging it with the clients' start models. With `sample_weights` the progress of
    client i counts n p_i times, with p_i its share of all samples.

    Limitations: nothing pulls the models of clients together, so no theorem covers it.
    """

    name, title, plot_style, linear = "favano-delta", "FAVANO-delta", 4, True
    any_policy = True

    reweight: Reweight = option("stochastic", REWEIGHT_TEXT, symbol="alpha")
    weights: WeightSource | None = option(None, SOURCE_TEXT, otherwise=SOURCE_OTHERWISE)
    given_weights: tuple[PositiveTime, ...] = option((), GIVEN_TEXT)
    server_learning_rate: Rate = option(1.0, "server learning rate", symbol="eta_g")
    sample_weights: bool = option(False, "weight clients by their samples")

    def check(self) -> None:
        check_weights(self.reweight, self.weights, self.given_weights)

    def policy(self) -> Polling:
        return self.context.polling()

    @cached_property
    def expected(self) -> Weights:
        """What clients know of their expected number of steps."""
        return step_weights(
            self.reweight,
            self.weights,
            self.given_weights,
            self.run_policy,
            self.context.fleet,
            measured=self.context.measured,
        )

    def init(self, model: Vector) -> FavanoState:
        return FavanoState(model, nothing_seen(self.expected))

    def aggregate(self, state: FavanoState, updates: ClientUpdates) -> FavanoState:
        about = updates.client, updates.steps, updates.expected
        divisor = alpha(self.reweight, self.expected, state.seen, *about)
        if self.sample_weights:
            divisor = divisor / self.context.relative_sizes[updates.client]
        progress = (updates.end - updates.start) / column(divisor, updates.end)  # (s, P)
        model = state.model + self.server_learning_rate * progress.mean(0)
        return FavanoState(model, count(self.expected, state.seen, updates.client, updates.steps))
