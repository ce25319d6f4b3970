"""Theorem 1 in three forms: bounds on (1/T) sum_{t<T} E ||grad f(mu_t)||^2.

`bound_short` is the printed statement. `bound_full` adds what the statement leaves out and corrects
its arithmetic. `bound_assembled` takes the proof's own constants before they are rounded; it is the
tightest, and valid wherever it is finite.
"""

from __future__ import annotations

from math import inf
from typing import NamedTuple

from favano.theory.potential import contraction, noise_level
from favano.theory.problem import TheoryProblem, TheorySetting, check_rate, check_rounds


class Expansion(NamedTuple):
    """A bound r0 / (eta T) + linear eta + quadratic eta^2."""

    r0: float
    linear: float
    quadratic: float

    def at(self, rate: float, rounds: float) -> float:
        """Its value after T = `rounds` server steps with the learning rate eta."""
        check_rate(rate)
        check_rounds(rounds)
        return self.r0 / (rate * rounds) + self.linear * rate + self.quadratic * rate**2


class Descent(NamedTuple):
    """The constants at the end of the proof of Theorem 1.

    E f(mu_{t+1}) - E f(mu_t) <= c1 Phi_t + c2 ||grad f(mu_t)||^2 + c3, and the sum of the Phi_t is
    at most d1 times the sum of the squared gradients, plus T d2.
    """

    c1: float
    c2: float
    c3: float
    d1: float
    d2: float

    @property
    def margin(self) -> float:
        """D = -c2 - c1 d1, which must be positive for the theorem to apply."""
        return -self.c2 - self.c1 * self.d1


def printed_expansion(setting: TheorySetting, problem: TheoryProblem) -> Expansion:
    """The terms of Theorem 1 as printed: no K^2 terms, and 5600 for 2 * 2880.

    >>> unit = TheorySetting(clients=1, selected=1, local_steps=1, mean_a=1.0, b=1.0)
    >>> printed_expansion(unit, TheoryProblem())
    Expansion(r0=4.0, linear=4.5, quadratic=6320.0)
    """
    n, s = setting.clients, setting.selected
    sigma2, g2, smooth = problem.noise**2, problem.dissimilarity**2, problem.smoothness
    return Expansion(
        r0=2 * (n + 1) * problem.gap / s,
        linear=smooth * s / (n + 1) * noise_level(setting, problem),
        quadratic=smooth**2 * s**2 * (720 * sigma2 * setting.mean_a + 5600 * setting.b * g2),
    )


def full_expansion(setting: TheorySetting, problem: TheoryProblem) -> Expansion:
    """The terms of Theorem 1 corrected (errata, 10 and 11).

        2(n+1)F / (T s eta) + (L s / (n+1)) (sigma^2 a + 8 b G^2) eta
        + [8 L^2 K^2 (sigma^2 + 4 G^2) + L^2 s^2 (720 sigma^2 a + 5760 b G^2)] eta^2

    >>> unit = TheorySetting(clients=1, selected=1, local_steps=1, mean_a=1.0, b=1.0)
    >>> full_expansion(unit, TheoryProblem()).quadratic
    6520.0
    """
    printed = printed_expansion(setting, problem)
    sigma2, g2, smooth = problem.noise**2, problem.dissimilarity**2, problem.smoothness
    steps = 8 * smooth**2 * setting.local_steps**2 * (sigma2 + 4 * g2)
    level = 720 * smooth**2 * setting.selected**2 * noise_level(setting, problem)
    return printed._replace(quadratic=steps + level)


def bound_short(
    setting: TheorySetting, problem: TheoryProblem, rate: float, rounds: float
) -> float:
    """Theorem 1 as printed.

    >>> unit = TheorySetting(clients=1, selected=1, local_steps=1, mean_a=1.0, b=1.0)
    >>> round(bound_short(unit, TheoryProblem(), rate=0.01, rounds=1000), 3)
    1.077
    """
    return printed_expansion(setting, problem).at(rate, rounds)


def bound_full(setting: TheorySetting, problem: TheoryProblem, rate: float, rounds: float) -> float:
    """Theorem 1 corrected; holds for learning rates up to `largest_rate`.

    >>> unit = TheorySetting(clients=1, selected=1, local_steps=1, mean_a=1.0, b=1.0)
    >>> round(bound_full(unit, TheoryProblem(), rate=0.01, rounds=1000), 3)
    1.097
    """
    return full_expansion(setting, problem).at(rate, rounds)


def descent(setting: TheorySetting, problem: TheoryProblem, rate: float) -> Descent:
    """The constants c_i, d_i of the proof, with the corrected contraction and no rounding.

    >>> unit = TheorySetting(clients=1, selected=1, local_steps=1, mean_a=1.0, b=1.0)
    >>> problem = TheoryProblem()
    >>> descent(unit, problem, rate=1e-3).margin > 0, descent(unit, problem, rate=0.2).margin
    (True, -inf)
    """
    check_rate(rate)
    n, s, steps, b = setting.clients, setting.selected, setting.local_steps, setting.b
    smooth, growth2 = problem.smoothness, problem.growth**2
    sigma2, g2 = problem.noise**2, problem.dissimilarity**2
    level, step = noise_level(setting, problem), s * rate / (n + 1)
    rho = contraction(setting, problem, rate)
    return Descent(
        c1=20 * smooth**2 * step / n + 8 * step**2 * smooth**3 * b / n,
        c2=step * (16 * smooth**2 * rate**2 * steps**2 * growth2 - 0.75)
        + 4 * smooth * step**2 * b * growth2,
        c3=4 * smooth**2 * rate**2 * steps**2 * step * (sigma2 + 4 * g2)
        + smooth * step**2 / 2 * level,
        d1=24 * growth2 * (s * rate) ** 2 * b / rho if rho > 0 else inf,
        d2=3 * (s * rate) ** 2 * level / rho if rho > 0 else inf,
    )


def bound_assembled(
    setting: TheorySetting, problem: TheoryProblem, rate: float, rounds: float
) -> float:
    """(F/T + c1 d2 + c3) / (-c2 - c1 d1): the proof's constants without rounding.

    Infinite where the proof does not apply: eta > 1/(4 L K^2), no contraction, or no descent.

    >>> unit = TheorySetting(clients=1, selected=1, local_steps=1, mean_a=1.0, b=1.0)
    >>> round(bound_assembled(unit, TheoryProblem(), rate=0.001, rounds=1000), 3)
    2.68
    >>> bound_assembled(unit, TheoryProblem(), rate=0.5, rounds=1000)
    inf
    """
    check_rounds(rounds)
    constants = descent(setting, problem, rate)
    small = rate <= 1 / (4 * problem.smoothness * setting.local_steps**2)
    if not small or constants.margin <= 0:
        return inf
    excess = constants.c1 * constants.d2 + constants.c3
    return (problem.gap / rounds + excess) / constants.margin
