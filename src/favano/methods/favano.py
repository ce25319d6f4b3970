"""FAVANO: Federated AVeraging with Asynchronous NOdes (Leconte, Nguyen, Moulines; Algorithm 1)."""

from __future__ import annotations

from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np

from favano.methods.arrays import column
from favano.methods.method import ClientUpdates, Method
from favano.methods.weights import (
    GIVEN_TEXT,
    REWEIGHT_TEXT,
    SOURCE_OTHERWISE,
    SOURCE_TEXT,
    Reweight,
    Seen,
    Weights,
    WeightSource,
    alpha,
    check_weights,
    count,
    nothing_seen,
    step_weights,
)
from favano.options import PositiveTime, option
from favano.policies import Polling
from favano.schedule import Schedule
from favano.types import Floats, Vector


class FavanoState(NamedTuple):
    """Server model w_t, and what has been seen of the clients (empirical weights only)."""

    model: Vector
    seen: Seen


class Favano(Method[FavanoState]):
    """At each tick the server asks s random clients for what they have.

        u_i = w_init_i + (w_i - w_init_i) / alpha_i          (w_init_i if client i made no step)
        w_t = (w_{t-1} + sum_{i in S_t} u_i) / (s + 1)

    alpha_i = P(E_i > 0) X_i (stochastic) or E[min(E_i, K)] (deterministic) makes the message an
    unbiased average gradient, whatever the speed of the client. The new model w_t is handed out
    and the clients that were asked start again from it. With `sample_weights` the progress of
    client i counts n p_i times, with p_i its share of all samples, so that messages are unbiased
    for sum_i p_i f_i; start models are averaged as before.

    Limitations: a message is one averaged gradient, diluted by stale start models, so at the
    learning rate of other methods it learns slowly; tune the rate. A client that can never finish
    a step cannot be made unbiased, and one that hardly ever does adds much noise.
    """

    title, plot_style, linear, any_policy = "FAVANO", 0, True, True

    reweight: Reweight = option("stochastic", REWEIGHT_TEXT, symbol="alpha")
    weights: WeightSource | None = option(None, SOURCE_TEXT, otherwise=SOURCE_OTHERWISE)
    given_weights: tuple[PositiveTime, ...] = option((), GIVEN_TEXT)
    rate_scale: Literal["none", "selected"] = option(
        "none", "selected: rate times (s+1)/s, as in QuAFL's simulator"
    )
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
        start, end = updates.start, updates.end
        about = updates.client, updates.steps, updates.expected
        divisor = alpha(self.reweight, self.expected, state.seen, *about)
        if self.sample_weights:
            divisor = divisor / self.context.relative_sizes[updates.client]
        unbiased = start + (end - start) / column(divisor, end)  # (s, P)
        model = (state.model + unbiased.sum(0)) / (len(unbiased) + 1)
        return FavanoState(model, count(self.expected, state.seen, updates.client, updates.steps))

    def rates(self, schedule: Schedule) -> Floats:
        s = self.context.selected
        scale = (s + 1) / s if self.rate_scale == "selected" else 1.0
        return np.full(len(schedule.client), scale)
