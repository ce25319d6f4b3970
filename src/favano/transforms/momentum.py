"""Momentum of the server."""

from favano.methods.arrays import zeros
from favano.options import Below1, Rate, option
from favano.transforms.transform import ServerTransform
from favano.types import Vector


class Momentum(ServerTransform[Vector]):
    """FedAvgM: m <- beta_1 m + D, D <- eta m; m begins with 0 (Hsu, Qi, Brown 2019)."""

    momentum: Below1 = option(0.9, "running sum of steps", symbol="beta_1")
    rate: Rate = option(1.0, "step size", symbol="eta")

    def init(self, model: Vector) -> Vector:
        return zeros(model)

    def step(self, state: Vector, step: Vector) -> tuple[Vector, Vector]:
        mean = self.momentum * state + step
        return self.rate * mean, mean


def momentum(momentum: float = 0.9, rate: float = 1.0) -> Momentum:
    """Momentum of the server; see `Momentum`."""
    return Momentum(momentum=momentum, rate=rate)
