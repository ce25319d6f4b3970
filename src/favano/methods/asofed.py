"""ASO-Fed: clients with a memory, steps that grow with delays (Chen, Ning, Slawski, ... 2020)."""

from __future__ import annotations

from typing import Literal

import numpy as np

from favano.methods.method import ClientUpdates, Method, ModelState
from favano.options import Count, UnitInterval, option
from favano.policies import Buffered, Latency
from favano.schedule import Schedule
from favano.types import Floats, Stack


class AsoFed(Method[ModelState]):
    """Every arrival is a server step; each client keeps h_k and its last gradient v_k.

        G = grad f_k(w_k) + lambda (w_k - w_start),    zeta = G - v_k + h_k
        w_k <- w_k - r_k eta zeta,    h_k <- beta h_k + (1 - beta) v_k,    v_k <- G
        w <- w + p_k (w_k_end - w_k_start),    r_k = max(1, log d_k)

    d_k is the mean time that the client's jobs took so far, p_k its share of all samples, or 1/n.
    lambda is `proximal` of local training. The client goes on from the new model.

    Differs from the paper: all data are there from the start, and the server does not rescale the
    first layer by its own weights.

    Limitations: it diverges at the step sizes of other methods, the more so as slow clients
    take longer steps. zeta is the gradient only on average over steps; with one or two steps per
    job it is mostly the difference of two gradients. A client keeps two vectors as long as the
    model: in a simulation that is 2 n of them.
    """

    title, plot_style, linear = "ASO-Fed", 14, True
    memory = 2
    suggests = {"proximal": 1.0, "learning_rate": 0.02}

    memory_decay: UnitInterval = option(
        0.001, "how slowly h_k forgets", symbol="beta", source="its paper"
    )
    delay_logarithm: Literal["natural", "decimal", "none"] = option(
        "natural", "of the delay in r_k; none: r_k = 1"
    )
    sample_weights: bool = option(False, "weight clients by their samples")
    concurrency: Count | None = option(None, "clients at work at a time", otherwise="all")
    latency: Latency = option("client", "who is busy during a communication")

    def policy(self) -> Buffered:
        at_work = self.concurrency or self.context.clients
        return self.context.buffered(concurrency=at_work, latency=self.latency)

    def aggregate(self, state: ModelState, updates: ClientUpdates) -> ModelState:
        share = self.context.shares(self.sample_weights)[updates.client]
        return ModelState(state.model + updates.weighted_delta(share))

    def local_step(
        self, gradient: Stack, memory: tuple[Stack, ...]
    ) -> tuple[Stack, tuple[Stack, ...]]:
        h, v = memory
        return gradient - v + h, (self.memory_decay * h + (1 - self.memory_decay) * v, gradient)

    def rates(self, schedule: Schedule) -> Floats:
        if self.delay_logarithm == "none":
            return np.ones(len(schedule.client))
        logarithm = np.log if self.delay_logarithm == "natural" else np.log10
        return np.maximum(1.0, logarithm(np.maximum(mean_delay(schedule), 1.0)))


def mean_delay(schedule: Schedule) -> Floats:
    """The mean time that a client's jobs before each job took, (J,); 1 for its first job."""
    delay = schedule.finish - schedule.begin
    order = np.lexsort((schedule.finish, schedule.begin, schedule.client))
    client, lasted = schedule.client[order], delay[order]
    known = np.where(np.isfinite(lasted), lasted, 0.0)
    jobs = np.arange(len(client)) - np.searchsorted(client, client)  # of the client before
    # Client by client: a sum over all would be rounded otherwise if another client did more later.
    parts = np.split(known, np.flatnonzero(jobs == 0)[1:])
    before = [total for part in parts for total in (0.0, *np.cumsum(part[:-1]))][: len(known)]
    mean = np.array(before) / np.maximum(jobs, 1)
    by_job = np.ones(len(order))
    by_job[order] = np.where(jobs > 0, mean, 1.0)
    return by_job
