"""AAFL: the first answers of each epoch are averaged in (Liu, Xu, Xu, ... 2021)."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Literal

import numpy as np

from favano.algorithms.base import ModelState, Visit, column, same_rate
from favano.errors import need
from favano.schedule import Arrival
from favano.types import Floats, Ints, Stack, Vector

ArrivalWeights = Literal["importance", "mean"]


@dataclass(frozen=True, kw_only=True)
class Aafl:
    """The server waits for the ceil(alpha n) earliest answers A_t and takes them in.

        w_t = (1 - sum_{i in A_t} p_i) w_{t-1} + sum_{i in A_t} p_i w_i        (importance)
        w_t = mean_{i in A_t} w_i                                               (mean)

    Contributors get w_t and start again, the others go on with what they have. alpha is constant:
    Differs from the paper, where it is chosen anew in each epoch by reinforcement learning.
    """

    policy: Arrival
    importance: Floats  # (n,) p_i, of sum 1
    weights: ArrivalWeights = "importance"

    def __post_init__(self) -> None:
        total = float(self.importance.sum())
        need(abs(total - 1.0) < 1e-9, "importance", total, "need numbers >= 0 of sum 1")

    def init(self, model: Vector) -> ModelState:
        """Everybody holds w_0."""
        return ModelState(model)

    def update(self, state: ModelState, visit: Visit, start: Stack, end: Stack) -> ModelState:
        """Take in the first answers."""
        return ModelState(self.average(state.model, end, visit))

    def restart(self, server: Vector, own: Stack) -> None:
        """Contributors adopt the new server model."""

    def drift(self, state: ModelState, client: Ints) -> None:
        """Local steps follow the clients' own gradients."""

    def next_steps(self, state: ModelState, client: Ints) -> None:
        """Jobs are as long as planned."""

    def average(self, server: Vector, clients: Stack, visit: Visit) -> Vector:
        """Parameters and buffers alike: the weights sum to 1."""
        share = self.importance[visit.client]
        if self.weights == "mean":
            share = np.full(len(clients), 1.0 / len(clients))
        kept = max(0.0, 1.0 - float(share.sum()))
        return kept * server + (column(share, clients) * clients).sum(0)

    def rate(self, client: Ints) -> Floats:
        """The learning rate itself."""
        return same_rate(client)


def first_arrivals(fraction: float, clients: int) -> int:
    """m = max(1, ceil(alpha n)), the answers an epoch waits for.

    >>> first_arrivals(0.1, 30), first_arrivals(0.11, 30), first_arrivals(0.001, 30)
    (3, 4, 1)
    """
    need(0 < fraction <= 1, "arrival_fraction", fraction, "need a number in (0, 1]")
    return max(1, ceil(fraction * clients - 1e-9))
