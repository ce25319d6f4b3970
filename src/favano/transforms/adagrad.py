"""Adagrad on the server, and the step that Adam and Yogi share with it."""

from __future__ import annotations

from typing import NamedTuple

from favano.methods.arrays import zeros
from favano.options import Below1, PositiveTime, Rate, option
from favano.transforms.transform import ServerTransform
from favano.types import Vector


class Moments(NamedTuple):
    """What an adaptive optimiser remembers of the steps so far, (P,) each."""

    mean: Vector  # m
    square: Vector  # v

    def step(
        self, step: Vector, square: Vector, rate: float, momentum: float, epsilon: float
    ) -> tuple[Vector, Moments]:
        """m <- beta_1 m + (1 - beta_1) D, D <- eta m / (sqrt(v) + tau), with the next v given."""
        mean = momentum * self.mean + (1 - momentum) * step
        return rate * mean / (square.sqrt() + epsilon), Moments(mean, square)


def first_moments(model: Vector, epsilon: float) -> Moments:
    """m = 0 and v = tau^2."""
    return Moments(zeros(model), zeros(model) + epsilon**2)


class Adagrad(ServerTransform[Moments]):
    """FedAdagrad: v <- v + D^2, m <- beta_1 m + (1 - beta_1) D, D <- eta m / (sqrt(v) + tau).

    m begins with 0 and v with tau^2 (Reddi, Charles, Zaheer, ... 2021, Algorithm 2).
    """

    rate: Rate = option(0.01, "step size", symbol="eta")
    momentum: Below1 = option(0.0, "running mean of steps", symbol="beta_1")
    epsilon: PositiveTime = option(1e-3, "added to the root", symbol="tau")

    def init(self, model: Vector) -> Moments:
        return first_moments(model, self.epsilon)

    def step(self, state: Moments, step: Vector) -> tuple[Vector, Moments]:
        square = state.square + step * step
        return state.step(step, square, self.rate, self.momentum, self.epsilon)


def adagrad(rate: float = 0.01, momentum: float = 0.0, epsilon: float = 1e-3) -> Adagrad:
    """Adagrad on the server; see `Adagrad`."""
    return Adagrad(rate=rate, momentum=momentum, epsilon=epsilon)
