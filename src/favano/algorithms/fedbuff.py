"""FedBuff: buffered asynchronous aggregation (Nguyen, Malik, Zhan, Yousefpour, ... 2022)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from favano.algorithms.base import ModelState, Visit, average_with_server, column
from favano.algorithms.staleness import Polynomial, Staleness
from favano.schedule import Arrival, Barrier
from favano.types import Floats, Ints, Stack, Vector

_SQUARE_ROOT = Polynomial(0.5)  # the weight of the FedBuff paper

BufferMode = Literal["concurrency", "block", "code", "reset"]


@dataclass(frozen=True, kw_only=True)
class FedBuff:
    """The server collects Z client updates of K steps each, then moves by their weighted mean.

        w <- w - eta_g (1/Z) sum_{j <= Z} sigma(tau_j) (w_start_j - w_end_j)

    Who works on what meanwhile is the policy's business: see `buffer_policy`.
    """

    policy: Arrival | Barrier
    server_learning_rate: float = 1.0
    staleness: Staleness = _SQUARE_ROOT
    rate_factor: float = 1.0  # Z/n in the QuAFL simulator

    def init(self, model: Vector) -> ModelState:
        """An empty buffer, and w_0."""
        return ModelState(model)

    def update(self, state: ModelState, visit: Visit, start: Stack, end: Stack) -> ModelState:
        """One flush of the buffer."""
        weight = column(self.staleness(visit.staleness), end)
        delta = (weight * (start - end)).mean(0)
        return ModelState(state.model - self.server_learning_rate * delta)

    def restart(self, server: Vector, own: Stack) -> None:
        """Clients start every job from a server model."""

    def drift(self, state: ModelState, client: Ints) -> None:
        """Local steps follow the clients' own gradients."""

    def next_steps(self, state: ModelState, client: Ints) -> None:
        """Jobs are as long as planned."""

    def average(self, server: Vector, clients: Stack, visit: Visit) -> Vector:
        """The mean of the server's and the Z clients' buffers."""
        return average_with_server(server, clients)

    def rate(self, client: Ints) -> Floats:
        """One factor for all."""
        return np.full(len(client), self.rate_factor)


def buffer_policy(
    mode: BufferMode,
    *,
    clients: int,
    buffer: int,
    local_steps: int,
    concurrency: int,
    interaction_time: float,
    distinct: bool = False,
    max_staleness: int | None = None,
    flush_at_end: bool = False,
) -> Arrival | Barrier:
    """The four ways to run the buffer that are found in papers and code.

    `concurrency`: that many clients at work, each arrival replaced by a random idle client (the
    FedBuff paper). `block`: all n at work, contributors wait for the flush and get the new model.
    `code`: all n at work, contributors go on at once with the model before the flush. `reset`: at
    every global step all n restart from the new model and the first Z to finish count.
    """
    if mode == "reset":
        return Barrier(
            selected=clients,
            wait_for=buffer,
            local_steps=local_steps,
            interaction_time=interaction_time,
        )
    hand_out: dict[str, Literal["idle", "flush", "arrival"]]
    hand_out = {"concurrency": "idle", "block": "flush", "code": "arrival"}
    return Arrival(
        buffer=buffer,
        local_steps=local_steps,
        hand_out=hand_out[mode],
        concurrency=concurrency if mode == "concurrency" else None,
        interaction_time=interaction_time,
        distinct=distinct,
        max_staleness=max_staleness,
        flush_at_end=flush_at_end,
    )
