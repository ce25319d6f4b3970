"""Adam on the server."""

from favano.options import Below1, PositiveTime, Rate, option
from favano.transforms.adagrad import Moments, first_moments
from favano.transforms.transform import ServerTransform
from favano.types import Vector


class Adam(ServerTransform[Moments]):
    """FedAdam: v <- beta_2 v + (1 - beta_2) D^2, m <- beta_1 m + (1 - beta_1) D,

        D <- eta m / (sqrt(v) + tau)

    m begins with 0 and v with tau^2; there is no bias correction (Reddi, Charles, Zaheer, ... 2021,
    Algorithm 2).
    """

    rate: Rate = option(0.01, "step size", symbol="eta")
    momentum: Below1 = option(0.9, "running mean of steps", symbol="beta_1")
    epsilon: PositiveTime = option(1e-3, "added to the root", symbol="tau")
    beta2: Below1 = option(0.99, "running mean of squares", symbol="beta_2")

    def init(self, model: Vector) -> Moments:
        return first_moments(model, self.epsilon)

    def step(self, state: Moments, step: Vector) -> tuple[Vector, Moments]:
        square = self.beta2 * state.square + (1 - self.beta2) * (step * step)
        return state.step(step, square, self.rate, self.momentum, self.epsilon)


def adam(
    rate: float = 0.01, momentum: float = 0.9, epsilon: float = 1e-3, beta2: float = 0.99
) -> Adam:
    """Adam on the server; see `Adam`."""
    return Adam(rate=rate, momentum=momentum, epsilon=epsilon, beta2=beta2)
