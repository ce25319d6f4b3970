"""FedFix: whatever has come back at each tick (Fraboni, Vidal, Kameni, Lorenzi 2023)."""

from __future__ import annotations

from functools import cached_property
from typing import Literal

import numpy as np

from favano.methods.method import ClientUpdates, Method, ModelState
from favano.options import PositiveTime, Rate, option
from favano.policies import Windowed
from favano.types import Floats


class FedFix(Method[ModelState]):
    """Every dt the server adds the weighted progress of all clients that are back.

        w <- w + eta_g sum_{i back} d_i (w_i_end - w_i_start),     d_i = E[ceil(T_i / dt)] p_i

    A client whose jobs last T_i takes part in one tick out of E[ceil(T_i / dt)], so that over
    time each moves the model by its importance p_i: 1/n, or its share of all samples with
    `sample_weights`. With identical weights fast clients count more.

    Limitations: where jobs last many windows, the weights of slow clients are large and so
    are the jumps of the model.
    """

    plot_style, linear = 9, True

    window: PositiveTime = option(7.0, "time between server steps", symbol="dt")
    window_weights: Literal["unbiased", "identical"] = option(
        "unbiased", "divide by the chance to arrive (unbiased), or not (identical)"
    )
    server_learning_rate: Rate = option(1.0, "server learning rate", symbol="eta_g")
    sample_weights: bool = option(False, "weight clients by their samples")

    def policy(self) -> Windowed:
        return Windowed(period=self.window, local_steps=self.context.local_steps)

    @cached_property
    def windows(self) -> Floats:
        """E[ceil(T_i / dt)], or 1 for all."""
        if self.window_weights == "identical":
            return np.ones(self.context.clients)
        from favano.theory import expected_windows  # SciPy comes with it

        return expected_windows(self.policy(), self.context.fleet)

    def aggregate(self, state: ModelState, updates: ClientUpdates) -> ModelState:
        importance = self.context.shares(self.sample_weights)
        weight = self.windows[updates.client] * importance[updates.client]
        return ModelState(state.model + self.server_learning_rate * updates.weighted_delta(weight))
