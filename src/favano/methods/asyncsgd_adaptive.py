"""AsyncSGD with steps that shrink with the delay (Mishchenko, Bach, Even, Woodworth 2022)."""

from __future__ import annotations

from typing import Literal

from favano.methods.arrays import column
from favano.methods.delays import DelayRule, delay_factor
from favano.methods.method import ClientUpdates, Method, ModelState
from favano.options import Count, Rate, option
from favano.policies import Buffered, Latency


class AsyncSGDAdaptive(Method[ModelState]):
    """x <- x - eta_s gamma(tau) (x_start - x_end), with gamma = M / max(M, tau), for each arrival.

    AsyncSGD with all clients at work: the client that finishes goes on with the new model, and a
    gradient that is older than the M jobs under way counts for less. With `sample_weights` gamma
    is times n p_i, with p_i the client's share of all samples.

    Limitations: slow clients' gradients are late, so the rule makes them count for even less.
    """

    name, title, plot_style, linear = "asyncsgd-adaptive", "AsyncSGD-adaptive", 7, True

    delays: DelayRule = option(
        "scale",
        "gradients staler than M: kept, scaled by M / staleness, or dropped",
        symbol="gamma",
    )
    assignment: Literal["uniform", "same"] = option(
        "same", "next job to a random client (uniform), or to the one that has just finished (same)"
    )
    gradients_per_job: Count = option(1, "local steps per job")
    concurrency: Count | None = option(None, "jobs under way", otherwise="all", symbol="M")
    server_learning_rate: Rate | None = option(
        None, "server learning rate", otherwise="1 / concurrency", symbol="eta_s"
    )
    latency: Latency = option("client", "who is busy during a communication")
    sample_weights: bool = option(False, "weight clients by their samples")

    def policy(self) -> Buffered:
        return self.context.buffered(
            local_steps=self.gradients_per_job,
            hand_out="uniform" if self.assignment == "uniform" else "flush",
            concurrency=self._at_work,
            latency=self.latency,
        )

    def aggregate(self, state: ModelState, updates: ClientUpdates) -> ModelState:
        factor = delay_factor(self.delays, self._at_work, updates.staleness)
        if self.sample_weights:
            factor = factor * self.context.relative_sizes[updates.client]
        step = column(factor, updates.end) * (updates.start - updates.end)
        return ModelState(state.model - self._server_step * step.sum(0))

    @property
    def _at_work(self) -> int:
        return self.concurrency or self.context.clients

    @property
    def _server_step(self) -> float:
        rate = self.server_learning_rate
        return 1.0 / self._at_work if rate is None else rate
