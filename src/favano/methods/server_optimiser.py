"""The server's optimiser: momentum, Adagrad, Adam or Yogi for any method with a step (FedOpt)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final, Literal, NamedTuple, TypeAlias

import numpy as np
from pydantic import Field

from favano.errors import require
from favano.methods.arrays import zeros
from favano.methods.method import ClientUpdates
from favano.methods.registry import AnyMethod
from favano.methods.robust import Robust, RobustRule, parse_robust
from favano.options import Options, PositiveTime, Rate, option
from favano.types import Vector

ServerOptimiserName: TypeAlias = Literal["none", "momentum", "adagrad", "adam", "yogi"]
Below1 = Annotated[float, Field(ge=0, lt=1)]


class Moments(NamedTuple):
    """What the server's optimiser remembers of the steps so far, (P,)."""

    mean: Vector  # m
    square: Vector  # v


@dataclass(frozen=True)
class ServerOptimiser:
    """What the server makes of a method's step D_t, its new model minus the old one.

        momentum   m <- beta_1 m + D_t,                      w <- w + eta m
        others     m <- beta_1 m + (1 - beta_1) D_t,         w <- w + eta m / (sqrt(v) + tau)
        adagrad    v <- v + D_t^2
        adam       v <- beta_2 v + (1 - beta_2) D_t^2
        yogi       v <- v - (1 - beta_2) D_t^2 sign(v - D_t^2)

    m begins with 0 and v with tau^2; there is no bias correction (Reddi, Charles, Zaheer, ... 2021,
    Algorithm 2; momentum: Hsu, Qi, Brown 2019). BatchNorm statistics are averaged as without it.
    """

    name: ServerOptimiserName
    rate: float  # eta
    momentum: float  # beta_1
    epsilon: float = 0.0  # tau
    beta2: float = 0.0

    def step(
        self, before: Vector, after: Vector, moments: Moments | None
    ) -> tuple[Vector, Moments]:
        """The new server model, from the models before and after the method's update."""
        moved = after - before
        mean, square = moments or Moments(zeros(moved), zeros(moved) + self.epsilon**2)
        if self.name == "momentum":
            mean = self.momentum * mean + moved
            return before + self.rate * mean, Moments(mean, square)
        mean = self.momentum * mean + (1 - self.momentum) * moved
        square = self._square(square, moved * moved)
        new = before + self.rate * mean / (square.sqrt() + self.epsilon)
        return new, Moments(mean, square)

    def _square(self, before: Vector, square: Vector) -> Vector:
        """v after a step with this square."""
        if self.name == "adagrad":
            return before + square
        if self.name == "adam":
            return self.beta2 * before + (1 - self.beta2) * square
        return before - (1 - self.beta2) * square * (before - square).sign()


_ADAM: Final[Mapping[str, float]] = {
    "server_optimiser_rate": 0.01,
    "server_momentum": 0.9,
    "server_epsilon": 1e-3,
    "server_beta2": 0.99,
}
_USUAL: Final[
    Mapping[ServerOptimiserName, Mapping[str, float]]
] = {  # the papers' numbers, in the order above
    "none": {},
    "momentum": {"server_optimiser_rate": 1.0, "server_momentum": 0.9},
    "adagrad": {"server_optimiser_rate": 0.01, "server_momentum": 0.0, "server_epsilon": 1e-3},
    "adam": _ADAM,
    "yogi": _ADAM,
}


class ServerOptions(Options):
    """What the server does beside the method: its optimiser, and whether it trusts answers."""

    server_optimiser: ServerOptimiserName = option(
        "none", "what the server makes of the method's step"
    )
    server_optimiser_rate: Rate | None = option(
        None, "step of this optimiser", otherwise="momentum 1, others 0.01", symbol="eta"
    )
    server_momentum: Below1 | None = option(
        None, "running mean of steps", otherwise="0.9, adagrad 0", symbol="beta_1"
    )
    server_epsilon: PositiveTime | None = option(
        None, "all but momentum: added to the root", otherwise="0.001", symbol="tau"
    )
    server_beta2: Below1 | None = option(
        None, "adam, yogi: running mean of squares", otherwise="0.99", symbol="beta_2"
    )
    robust: RobustRule = option("none", "median, trimmed:SHARE or clip:NORM of answers")

    def check(self) -> None:
        """Numbers go with an optimiser that has them."""
        for key, value in self.given.items():
            kinds = [name for name, numbers in _USUAL.items() if key in numbers]
            rule = f"requires server_optimiser={' or '.join(kinds)}"
            require(not kinds or self.server_optimiser in kinds, key, value, rule)

    @property
    def numbers(self) -> dict[str, float]:
        """The numbers of the optimiser: those given, and the papers' for the others."""
        usual = _USUAL[self.server_optimiser]
        given = {key: getattr(self, key) for key in usual}
        return {key: usual[key] if value is None else value for key, value in given.items()}

    @property
    def optimiser(self) -> ServerOptimiser | None:
        """The optimiser; None: the server makes the method's own step."""
        name = self.server_optimiser
        return None if name == "none" else ServerOptimiser(name, *self.numbers.values())

    @property
    def robust_rule(self) -> Robust | None:
        """How the server limits what one client can do; None: it trusts every answer."""
        return parse_robust(self.robust)

    @property
    def plain(self) -> bool:
        """Whether the server does what the method says, and nothing else."""
        return self.optimiser is None and self.robust_rule is None


def check_step(method: AnyMethod, optimiser: ServerOptimiser) -> None:
    """Refuse a method without a step on the server: one that averages models.

    Tried out on one number: if no client has moved, the server's model must not move either.
    """
    import torch

    zero, model = np.zeros(1, dtype=np.int64), torch.zeros(1, dtype=torch.float64)
    start = model[None] + 1.0
    updates = ClientUpdates(zero, zero + 1, zero, np.ones(1), 0, start, start)
    after = method.aggregate(method.init(model), updates).model
    rule = (
        f"need none with {method.name}, which averages models instead of making a step: its server "
        "model moves even if no client does"
    )
    require(torch.equal(after, model), "server_optimiser", optimiser.name, rule)
