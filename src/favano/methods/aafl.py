"""AAFL: the first client updates of each epoch are averaged in (Liu, Xu, Xu, ... 2021)."""

from __future__ import annotations

from math import ceil
from typing import Literal

import numpy as np

from favano.errors import require
from favano.methods.arrays import column
from favano.methods.method import ClientUpdates, Method, ModelState
from favano.options import PositiveUnitInterval, option
from favano.policies import Buffered
from favano.types import Stack, Vector


class Aafl(Method[ModelState]):
    """The server waits for the ceil(alpha n) earliest client updates A_t and takes them in.

        w_t = (1 - sum_{i in A_t} p_i) w_{t-1} + sum_{i in A_t} p_i w_i        (importance)
        w_t = mean_{i in A_t} w_i                                               (mean)

    p_i is 1/n or, with `sample_weights`, the client's share of all samples.
    Contributors get w_t and start again, the others go on with what they have. alpha is constant:
    Differs from the paper, where it is chosen anew in each epoch by reinforcement learning.

    Limitations: the earliest client updates are those of fast clients.
    """

    title, plot_style, linear, any_policy = "AAFL", 8, True, True
    policy_options = ("arrival_fraction",)

    arrival_fraction: PositiveUnitInterval = option(
        0.1, "share of clients a server step waits for", symbol="alpha"
    )
    arrival_weights: Literal["importance", "mean"] = option(
        "importance", "average with the server model (importance), or clients alone (mean)"
    )
    sample_weights: bool = option(False, "weight clients by their samples")

    def check(self) -> None:
        rule = "has no effect with arrival_weights=mean, which weighs all alike; remove it"
        alike = self.arrival_weights == "mean"
        require(not (alike and self.sample_weights), "sample_weights", True, rule)

    def policy(self) -> Buffered:
        return self.context.buffered(
            buffer=first_arrivals(self.arrival_fraction, self.context.clients)
        )

    def aggregate(self, state: ModelState, updates: ClientUpdates) -> ModelState:
        return ModelState(self.aggregate_buffers(state.model, updates.end, updates))

    def aggregate_buffers(self, server: Vector, clients: Stack, updates: ClientUpdates) -> Vector:
        share = self.context.shares(self.sample_weights)[updates.client]
        if self.arrival_weights == "mean":
            share = np.full(len(clients), 1.0 / len(clients))
        kept = max(0.0, 1.0 - float(share.sum()))
        return kept * server + (column(share, clients) * clients).sum(0)


def first_arrivals(fraction: float, clients: int) -> int:
    """m = max(1, ceil(alpha n)), the client updates an epoch waits for.

    >>> first_arrivals(0.1, 30), first_arrivals(0.11, 30), first_arrivals(0.001, 30)
    (3, 4, 1)
    """
    return max(1, ceil(fraction * clients - 1e-9))
