"""The two unbiased estimators of a client's mean gradient, with their weights and variances.

With Y_1, Y_2, ... independent of mean mu and variance v, and X the number of local steps,

    M1 = 1{X > 0} (Y_1 + ... + Y_X) / (P(X > 0) X)        stochastic
    M2 = (Y_1 + ... + Y_X) / E[X]                         deterministic

are the messages of FAVANO's clients (equation (3); Lemmas "bias" and "variance" of the appendix).
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from favano.errors import require
from favano.theory.problem import SMALLEST
from favano.theory.steps import StepCount
from favano.types import Floats

Rule: TypeAlias = Literal["stochastic", "deterministic"]
"""How FAVANO reweights: by the steps made and their chance, or by their expectation."""


def weight(law: StepCount, rule: Rule) -> Floats:
    """The divisor alpha for each number of steps 0..K: P(X > 0) X, or E[X] (equation (3)).

    A client that made no step has no progress to divide; its entry is 1 under both rules.

    >>> import numpy as np
    >>> weight(StepCount(np.array([0.5, 0.25, 0.25])), "stochastic").tolist()
    [1.0, 0.5, 1.0]
    """
    check_reachable(law)
    alpha = law.p_positive * law.counts if rule == "stochastic" else 0.0 * law.counts + law.mean
    alpha[0] = 1.0
    return alpha


def estimator_mean(law: StepCount, alpha: Floats) -> float:
    """E[X / alpha(X)], the mean message for a gradient of 1: it is 1 for both rules.

    >>> import numpy as np
    >>> law = StepCount(np.array([0.5, 0.25, 0.25]))
    >>> estimator_mean(law, weight(law, "deterministic")), estimator_mean(law, np.ones(3))
    (1.0, 0.75)
    """
    return float(law.pmf @ (law.counts / alpha))


def estimator_variance(law: StepCount, rule: Rule, *, mean: float, variance: float) -> float:
    """Variance of the message, for gradients of norm `mean` and variance `variance` (a trace).

        Var(M1) = mu^2 (1 - P) / P + v E[1{X>0}/X] / P^2
        Var(M2) = mu^2 Var(X) / E[X]^2 + v / E[X]

    Lemma "variance" of the appendix, whose last lines are right (errata, 2).

    >>> import numpy as np
    >>> always = StepCount(np.array([0.0, 0.0, 1.0]))
    >>> estimator_variance(always, "stochastic", mean=3.0, variance=1.0)
    0.5
    """
    check_reachable(law)
    require(variance >= 0, "variance", variance, "need a number >= 0")
    if rule == "stochastic":
        chance = law.p_positive
        return mean**2 * (1 - chance) / chance + variance * law.mean_inverse / chance**2
    return mean**2 * law.variance / law.mean**2 + variance / law.mean


def check_reachable(law: StepCount) -> None:
    """Refuse a client that never finishes a step: no weight makes its progress unbiased."""
    rule = "the client can never finish a step, so its progress cannot be made unbiased"
    require(law.p_positive >= SMALLEST, "P(E > 0)", law.p_positive, rule)
