"""AsyncSGD: a server step for every gradient that arrives (Koloskova, Stich, Jaggi 2022)."""

from __future__ import annotations

from typing import Literal

from favano.methods.arrays import column
from favano.methods.delays import DelayRule, delay_factor
from favano.methods.method import ClientUpdates, Method, ModelState
from favano.options import Count, Rate, option
from favano.policies import Buffered, Latency


class AsyncSGD(Method[ModelState]):
    """x <- x - eta_s gamma(tau) (x_start - x_end), for one arrival at a time.

    An update is one SGD step, so x_start - x_end = eta g. With `assignment="uniform"` (Algorithm 2
    of the paper) the next job goes to a client drawn uniformly, queueing if it is busy, which is
    what keeps the method unbiased; with "same" the finishing client goes on with the new model
    (Algorithm 1). gamma is

        none    1
        scale   M / max(M, tau)            (Mishchenko, Bach, Even, Woodworth 2022)
        drop    1 if tau <= M, else 0      (Koloskova et al., delay-adaptive, M = tau_C)

    where M is the number of jobs under way. With `sample_weights` gamma is times n p_i, with p_i
    the client's share of all samples.

    Limitations: with "same", fast clients train the model.
    """

    plot_style, linear = 5, True

    assignment: Literal["uniform", "same"] = option(
        "uniform",
        "next job to a random client (uniform), or to the one that has just finished (same)",
        source="Algorithm 2",
    )
    gradients_per_job: Count = option(1, "local steps per job")
    concurrency: Count | None = option(
        None, "jobs under way", otherwise="selected, all with assignment=same", symbol="M"
    )
    server_learning_rate: Rate | None = option(
        None, "server learning rate", otherwise="1 / concurrency", symbol="eta_s"
    )
    delays: DelayRule = option(
        "none", "gradients staler than M: kept, scaled by M / staleness, or dropped", symbol="gamma"
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
        # A client that gets the next job itself never makes way for one that is not at work.
        everyone = self.assignment == "same"
        return self.concurrency or (self.context.clients if everyone else self.context.selected)

    @property
    def _server_step(self) -> float:
        rate = self.server_learning_rate
        return 1.0 / self._at_work if rate is None else rate
