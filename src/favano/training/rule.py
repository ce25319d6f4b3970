"""The local rule: in which direction a client steps, given its gradient."""

from __future__ import annotations

from dataclasses import dataclass

from favano.errors import need
from favano.types import Vector


@dataclass(frozen=True)
class LocalRule:
    """w <- w - rate (g + proximal (w - w_start)): plain SGD, with an optional pull to the start."""

    proximal: float = 0.0

    def __post_init__(self) -> None:
        need(self.proximal >= 0, "proximal", self.proximal, "need a number >= 0")

    def direction(self, gradient: Vector, weights: Vector, start: Vector) -> Vector:
        """What is subtracted from the weights, per unit of step size."""
        if self.proximal == 0.0:
            return gradient
        return gradient + self.proximal * (weights - start)
