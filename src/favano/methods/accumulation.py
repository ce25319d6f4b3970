"""How the gradients of a job add up to its progress."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from favano.types import Floats, Ints


@dataclass(frozen=True)
class Accumulation:
    """The local rule v <- beta v + g + rho (w - w_start), w <- w - rate v, with fresh v = 0.

    A job of X steps makes the progress -rate sum_j a_j g_j of its gradients. Optimisers other than
    SGD, weight decay and clipping are not of this form. Momentum that a client keeps from job to
    job counts as none: in the long run every gradient then has the same weight.
    """

    proximal: float = 0.0  # rho
    momentum: float = 0.0  # beta
    nesterov: bool = False  # w <- w - rate (g + rho (w - w_start) + beta v)

    @property
    def plain(self) -> bool:
        """Whether all steps count alike, a_j = 1."""
        return not self.proximal and not self.momentum

    def reach(self, steps: Ints, rates: Floats) -> Floats:
        """Distance of jobs from their start models if every gradient has length one.

        Without momentum: sum_{j<X} rate (1 - rate rho)^j = (1 - (1 - rate rho)^X) / rho.

        >>> Accumulation(proximal=0.5).reach(np.array([1, 2, 3]), np.ones(3))
        array([1.  , 1.5 , 1.75])
        >>> Accumulation(momentum=0.5).reach(np.array([1, 2, 3]), np.ones(3))
        array([1.  , 2.5 , 4.25])
        """
        if self.plain:
            return np.asarray(steps * rates)
        if not self.momentum:
            return np.asarray((1.0 - (1.0 - rates * self.proximal) ** steps) / self.proximal)
        away, velocity = np.zeros(len(steps)), np.zeros(len(steps))
        for step in range(int(steps.max(initial=0))):
            force = 1.0 - self.proximal * away
            velocity = self.momentum * velocity + force
            move = force + self.momentum * velocity if self.nesterov else velocity
            away = np.where(step < steps, away + rates * move, away)
        return away

    def norm(self, steps: Ints, rates: Floats) -> Floats:
        """||a||_1, the weight of all gradients of a job together: X for plain steps.

        >>> Accumulation().norm(np.array([2, 10]), np.array([0.1, 0.1]))
        array([ 2., 10.])
        """
        if self.plain:
            return steps.astype(np.float64)
        rates = np.maximum(rates, 1e-300)  # without a rate, the pull does nothing
        return np.asarray(self.reach(steps, rates) / rates)


PLAIN_SGD = Accumulation()
