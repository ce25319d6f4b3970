"""AsyncFedED: step sizes and job lengths from Euclidean distances (Wang, Zhang, Qiu, Wang 2022)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import floor
from typing import NamedTuple

import numpy as np

from favano.algorithms.base import Visit, average_with_server, same_rate
from favano.errors import need
from favano.schedule import Adaptive
from favano.types import Floats, Ints, Stack, Vector


class AsyncFedEDState(NamedTuple):
    """Server model x_t, and the K_i of clients whose jobs are not of the first length any more."""

    model: Vector
    steps: Mapping[int, int]


@dataclass(frozen=True, kw_only=True)
class AsyncFedED:
    """Every arrival Delta_i = x_end - x_start is a server step; its age is measured in distance.

        gamma = ||x_t - x_start|| / ||Delta_i||
        x <- x + lambda / (gamma + epsilon) Delta_i
        K_i <- max(1, K_i + floor((target - gamma) gain)),   K_max at most

    so that the next job of a client is shorter where the server has moved on by more than `target`
    times the client's own progress. A client that has not moved changes nothing.
    """

    policy: Adaptive
    scale: float = 1.0  # lambda
    offset: float = 1.0  # epsilon
    target: float = 3.0  # gamma bar
    gain: float = 1.0  # kappa

    def __post_init__(self) -> None:
        need(self.offset > 0, "distance_offset", self.offset, "need a positive number")

    def init(self, model: Vector) -> AsyncFedEDState:
        """Everybody works on w_0, for equally many steps."""
        return AsyncFedEDState(model, {})

    def update(
        self, state: AsyncFedEDState, visit: Visit, start: Stack, end: Stack
    ) -> AsyncFedEDState:
        """Add the progress, and say how long the client's next job is."""
        progress = end[0] - start[0]
        length = float(progress.norm())
        if length == 0.0:
            return state
        gamma = float((state.model - start[0]).norm()) / length
        client, made = int(visit.client[0]), int(visit.steps[0])
        steps = max(1, made + floor((self.target - gamma) * self.gain))
        return AsyncFedEDState(
            state.model + self.scale / (gamma + self.offset) * progress,
            {**state.steps, client: min(steps, self.policy.most_steps)},
        )

    def restart(self, server: Vector, own: Stack) -> None:
        """The client goes on from the new server model."""

    def drift(self, state: AsyncFedEDState, client: Ints) -> None:
        """Local steps follow the clients' own gradients."""

    def next_steps(self, state: AsyncFedEDState, client: Ints) -> Ints:
        """K_i."""
        first = self.policy.local_steps
        return np.array([state.steps.get(who, first) for who in client.tolist()], dtype=np.int64)

    def average(self, server: Vector, clients: Stack, visit: Visit) -> Vector:
        """The mean of the server's and the client's buffers."""
        return average_with_server(server, clients)

    def rate(self, client: Ints) -> Floats:
        """The learning rate itself."""
        return same_rate(client)
