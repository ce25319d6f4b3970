"""The number of server steps that reach a target, and the learning rate that needs the fewest.

A bound psi(eta) = r0 / (eta T) + linear eta + quadratic eta^2 for eta <= 1/d is minimised exactly
(`best_rate`, `fewest_rounds`) and by the closed form of Koloskova, Stich and Jaggi (2022) that the
paper uses (Lemma "complexity"), which is within a constant of it (`lemma_rate`, `lemma_rounds`).
"""

from __future__ import annotations

from math import ceil, inf, sqrt
from typing import NamedTuple

from favano.errors import require
from favano.theory.bounds import Expansion, full_expansion
from favano.theory.conditions import largest_rate
from favano.theory.potential import noise_level
from favano.theory.problem import (
    PaperForm,
    TheoryProblem,
    TheorySetting,
    check_rounds,
    check_target,
)

_NEWTON = 8  # steps that are more than enough
_EXACT = 2.0**53  # beyond it, not every whole number is a float


class ComplexityTerms(NamedTuple):
    """A complexity second / eps^2 + middle / eps^(3/2) + first / eps, term by term."""

    second: float
    middle: float
    first: float

    @property
    def total(self) -> float:
        """Their sum."""
        return self.second + self.middle + self.first


class Choice(NamedTuple):
    """A learning rate and the number of server steps it needs."""

    rate: float
    rounds: float


def best_rate(expansion: Expansion, cap: float, rounds: float) -> float:
    """The eta <= cap that minimises the bound after T rounds: 2 e eta^3 + linear eta^2 = r0 / T.

    >>> f"{best_rate(Expansion(r0=1.0, linear=0.0, quadratic=0.5), cap=1.0, rounds=1000):.6f}"
    '0.100000'
    """
    check_rounds(rounds)
    require(cap > 0, "cap", cap, "need a positive learning rate")
    r0, linear, quadratic = expansion
    if r0 == 0:
        return cap
    cube = (r0 / rounds / (2 * quadratic)) ** (1 / 3) if quadratic else inf
    square = sqrt(r0 / rounds / linear) if linear else inf
    unit = min(cube, square)
    if unit in (0.0, inf):
        return min(cap, unit)
    # In units of its upper limit the root lies in 0.7..1, which no scale of the terms can spoil.
    third, second, root = (unit / cube) ** 3, (unit / square) ** 2, 1.0
    for _ in range(_NEWTON):
        excess = third * root**3 + second * root**2 - 1
        root -= excess / (3 * third * root**2 + 2 * second * root)
    return min(cap, root * unit)


def fewest_rounds(expansion: Expansion, cap: float, target: float) -> Choice:
    """The eta <= cap that reaches the target in the fewest server steps, and their number.

    T = r0 / (eps eta - linear eta^2 - quadratic eta^3); the denominator is largest where
    3 quadratic eta^2 + 2 linear eta = eps.

    >>> fewest_rounds(Expansion(r0=2.0, linear=1.0, quadratic=0.0), cap=1.0, target=0.2)
    Choice(rate=0.1, rounds=200)
    """
    check_target(target)
    require(cap > 0, "cap", cap, "need a positive learning rate")
    r0, linear, quadratic = expansion
    # The root in a form without cancellation, so that it also holds for quadratic = 0.
    slope = linear + sqrt(linear**2 + 3 * quadratic * target)
    rate = min(cap, target / slope) if slope else cap
    gain = rate * (target - linear * rate - quadratic * rate**2)
    rounds = r0 / gain * (1 - 1e-12)
    return Choice(rate, max(1, ceil(rounds)) if rounds < _EXACT else rounds)


def lemma_rate(expansion: Expansion, cap: float, rounds: float) -> float:
    """min{(r0/(linear T))^(1/2), (r0/(quadratic T))^(1/3), cap} (Lemma "complexity").

    >>> lemma_rate(Expansion(r0=1.0, linear=0.25, quadratic=0.0), cap=1.0, rounds=100)
    0.2
    """
    check_rounds(rounds)
    r0, linear, quadratic = expansion
    first = sqrt(r0 / (linear * rounds)) if linear else inf
    second = (r0 / (quadratic * rounds)) ** (1 / 3) if quadratic else inf
    return min(first, second, cap)


def lemma_bound(
    expansion: Expansion, cap: float, rounds: float, form: PaperForm = "corrected"
) -> float:
    """2 (linear r0/T)^(1/2) + 2 quadratic^(1/3) (r0/T)^(2/3) + r0 / (cap T), met by `lemma_rate`.

    The paper prints 1 for the second 2, which does not hold (errata, 13).

    >>> example = Expansion(r0=1.0, linear=0.0, quadratic=1.0)
    >>> [round(lemma_bound(example, 1.0, 1000, form), 6) for form in ("corrected", "printed")]
    [0.021, 0.011]
    """
    check_rounds(rounds)
    r0, linear, quadratic = expansion
    factor = 1 if form == "printed" else 2
    middle = float(factor * quadratic ** (1 / 3) * (r0 / rounds) ** (2 / 3))
    return 2 * sqrt(linear * r0 / rounds) + middle + r0 / (cap * rounds)


def lemma_rounds(expansion: Expansion, cap: float, target: float) -> ComplexityTerms:
    """36 linear r0/eps^2 + 15 r0 quadratic^(1/2)/eps^(3/2) + 3 r0/(cap eps) server steps suffice.

    15 is 6^(3/2) rounded up, as the corrected lemma has it (errata, 13).

    >>> lemma_rounds(Expansion(r0=1.0, linear=1.0, quadratic=1.0), cap=1.0, target=1.0).total
    54.0
    """
    check_target(target)
    r0, linear, quadratic = expansion
    return ComplexityTerms(
        36 * linear * r0 / target**2,
        15 * r0 * sqrt(quadratic) / target**1.5,
        3 * r0 / (cap * target),
    )


def rounds_to_target(
    setting: TheorySetting, problem: TheoryProblem, target: float
) -> ComplexityTerms:
    """Corollary 1 corrected, with its constants: this many server steps suffice.

        72 F L (sigma^2 a + 8 b G^2) / eps^2
        + 30 ((n+1)/s) F L [8 K^2 (sigma^2 + 4 G^2) + s^2 (720 sigma^2 a + 5760 b G^2)]^(1/2)
          / eps^(3/2)
        + 6 ((n+1)/s) F / (eta_max eps)

    >>> unit = TheorySetting(clients=1, selected=1, local_steps=1, mean_a=1.0, b=1.0)
    >>> rounds_to_target(unit, TheoryProblem(), target=1.0).second
    648.0
    """
    return lemma_rounds(full_expansion(setting, problem), largest_rate(setting, problem), target)


def corollary(
    setting: TheorySetting, problem: TheoryProblem, target: float, form: PaperForm = "corrected"
) -> ComplexityTerms:
    """Corollary 1 up to numerical constants, as the paper states it.

        F L (sigma^2 a + 8 G^2 b) / eps^2
        + (n/s) F L (K^2 sigma^2 + K^2 G^2 + s^2 sigma^2 a + s^2 G^2 b)^(1/2) / eps^(3/2)
        + n F L max(B b^(1/2), b, B K/s, K^2/s, b B^2/n) / eps

    The paper prints F L^2 and L^2 K^2 G^2 in the middle, whose units disagree, and n F B^2 K L b
    at the end, from a learning rate that its proof does not allow (errata, 12 and 14).

    >>> unit = TheorySetting(clients=1, selected=1, local_steps=3, mean_a=1.0, b=1.0)
    >>> [corollary(unit, TheoryProblem(), 1.0, form).first for form in ("corrected", "printed")]
    [9.0, 3.0]
    """
    check_target(target)
    smooth, gap, steps2 = problem.smoothness, problem.gap, setting.local_steps**2
    sigma2, g2, s2 = problem.noise**2, problem.dissimilarity**2, setting.selected**2
    extra = smooth if form == "printed" else 1.0
    inside = steps2 * sigma2 + extra**2 * steps2 * g2
    inside += s2 * sigma2 * setting.mean_a + s2 * g2 * setting.b
    growth, b, n, s = problem.growth, setting.b, setting.clients, setting.selected
    if form == "printed":
        last = growth**2 * setting.local_steps * b
    else:  # the inverse of `sufficient_conditions`, times 1/s
        correction = growth * setting.local_steps / s
        last = max(growth * sqrt(b), b, correction, steps2 / s, b * growth**2 / n)
    return ComplexityTerms(
        gap * smooth * noise_level(setting, problem) / target**2,
        n / s * gap * smooth * extra * sqrt(inside) / target**1.5,
        n * gap * smooth * last / target,
    )
