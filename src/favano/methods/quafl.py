"""QuAFL: server and clients mix their models (Zakerinia, Talaei, Nadiradze, Alistarh 2022)."""

from __future__ import annotations

from typing import Literal

import numpy as np

from favano.errors import require
from favano.methods.arrays import copies
from favano.methods.method import ClientUpdates, Method, ModelState, average_with_server
from favano.options import option
from favano.policies import Polling
from favano.schedule import Schedule
from favano.types import Floats, Stack, Vector


class Quafl(Method[ModelState]):
    """At each tick server and s random clients mix their models; clients never start again.

        w_t = (w_{t-1} + sum_{i in S_t} y_i) / (s + 1)
        y_i <- (w_{t-1} + s y_i) / (s + 1)

    The old model w_{t-1} is handed out: only then do gradients alone move the sum of all models.
    With `sample_weights` the learning rate of client i is times n p_i, with p_i its share of all
    samples; models are mixed as before, so that this still holds.

    Limitations: fast clients make more steps between calls and count for more. Clients keep
    most of their own model, so data that are not IID pull them far apart.
    """

    title, plot_style, linear = "QuAFL", 2, True

    client_averaging: bool = option(True, "clients keep a part of their model; else adopt w_{t-1}")
    server_averaging: bool = option(True, "the server keeps a part of its model")
    dampening: bool = option(
        False, "slow down fast clients' steps by H_min / H_i, with H_i their expected number"
    )
    sample_weights: bool = option(False, "weight clients by their samples")
    rate_scale: Literal["none", "selected"] = option(
        "selected", "selected: learning rate times (s+1)/s", source="the authors' simulator"
    )

    def check(self) -> None:
        rule = "has no effect with server_averaging=False, where nothing is scaled; remove it"
        require(
            self.server_averaging or "rate_scale" not in self.given,
            "rate_scale",
            self.rate_scale,
            rule,
        )

    def policy(self) -> Polling:
        return self.context.polling()

    def aggregate(self, state: ModelState, updates: ClientUpdates) -> ModelState:
        return ModelState(self.aggregate_buffers(state.model, updates.end, updates))

    def next_client_model(self, server: Vector, own: Stack) -> Stack:
        if not self.client_averaging:
            return copies(server, own)
        s = self.context.selected
        return (server + s * own) / (s + 1)

    def aggregate_buffers(self, server: Vector, clients: Stack, updates: ClientUpdates) -> Vector:
        return average_with_server(server, clients) if self.server_averaging else clients.mean(0)

    def rates(self, schedule: Schedule) -> Floats:
        s, client = self.context.selected, schedule.client
        scaled = self.rate_scale == "selected" and self.server_averaging
        factor = np.full(len(client), (s + 1) / s if scaled else 1.0)
        if self.sample_weights:
            factor = factor * self.context.relative_sizes[client]
        if not self.dampening:
            return factor
        from favano.theory import expected_counts  # SciPy comes with it

        fleet = self.context.fleet
        rule = "needs steps that are expected, which are not known where clients come and go"
        require(fleet.conditions.presence is None, "dampening", True, f"{rule}; remove it")
        steps = expected_counts(self.policy(), fleet)[1]
        slowed: Floats = factor * steps.min() / steps[client]
        return slowed
