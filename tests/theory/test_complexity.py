"""Server steps to a target: the lemma, the corollary, and the exact optimum they approximate."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from favano.errors import BadInput
from favano.theory import (
    Expansion,
    TheoryProblem,
    TheorySetting,
    best_rate,
    corollary,
    fewest_rounds,
    full_expansion,
    largest_rate,
    lemma_bound,
    lemma_rate,
    lemma_rounds,
    rounds_to_target,
)
from tests.theory.units import PROBLEMS, SETTINGS, has_unit


def instances(count: int) -> list[tuple[Expansion, float, float, float]]:
    drawn = np.exp(np.random.default_rng(0).normal(0, 2, (count, 6)))
    return [(Expansion(r0, beta, e), 1 / d, eps, 1 + T) for r0, beta, e, d, eps, T in drawn]


def test_the_lemma_holds_with_its_factor_two_and_not_without() -> None:
    violated = 0
    for expansion, cap, target, rounds in instances(3000):
        value = expansion.at(lemma_rate(expansion, cap, rounds), rounds)
        assert value <= lemma_bound(expansion, cap, rounds) * (1 + 1e-9)
        violated += value > lemma_bound(expansion, cap, rounds, "printed")
        enough = max(1.0, lemma_rounds(expansion, cap, target).total)
        assert expansion.at(lemma_rate(expansion, cap, enough), enough) <= target * (1 + 1e-9)
    assert violated > 100


def test_the_exact_optimum_is_one_and_is_better() -> None:
    for expansion, cap, target, rounds in instances(300):
        rate = best_rate(expansion, cap, rounds)
        assert 0 < rate <= cap
        best = expansion.at(rate, rounds)
        assert best <= expansion.at(lemma_rate(expansion, cap, rounds), rounds) * (1 + 1e-9)
        for other in (rate * 0.99, min(cap, rate * 1.01)):
            assert best <= expansion.at(other, rounds) * (1 + 1e-12)
        choice = fewest_rounds(expansion, cap, target)
        assert expansion.at(choice.rate, choice.rounds) <= target * (1 + 1e-9)
        assert choice.rounds <= max(1, np.ceil(lemma_rounds(expansion, cap, target).total))
        if choice.rounds > 1:
            fewer = choice.rounds - 1
            assert expansion.at(best_rate(expansion, cap, fewer), fewer) >= target * (1 - 1e-9)


def test_the_corollary_with_its_constants() -> None:
    """(6.8) written out, with the paper's own step-size cap d = 20 B^2 b K L s in its last term."""
    where = TheorySetting(clients=100, selected=20, local_steps=10, mean_a=0.34, b=1.35)
    problem = TheoryProblem(smoothness=2.0, noise=0.7, dissimilarity=1.3, growth=1.5, gap=3.0)
    eps, n, s, K, a, b = 0.2, 100, 20, 10, 0.34, 1.35
    F, L, sigma2, G2, B2 = 3.0, 2.0, 0.49, 1.69, 2.25
    rounds = rounds_to_target(where, problem, eps)
    assert rounds.second == pytest.approx(72 * F * L * (sigma2 * a + 8 * b * G2) / eps**2)
    inside = 8 * K**2 * (sigma2 + 4 * G2) + s**2 * (720 * sigma2 * a + 5760 * b * G2)
    assert rounds.middle == pytest.approx(30 * (n + 1) / s * F * L * inside**0.5 / eps**1.5)
    assert rounds.first == pytest.approx(6 * (n + 1) / s * F / largest_rate(where, problem) / eps)
    claimed = largest_rate(where, problem, "printed")
    last = lemma_rounds(full_expansion(where, problem), claimed, eps).first
    assert last == pytest.approx(120 * (n + 1) * F * B2 * b * K * L / eps)


@pytest.mark.parametrize("selected", [1, 20, 100])
@pytest.mark.parametrize("local_steps", [1, 20, 1000])
@pytest.mark.parametrize("b", [1.0, 400.0])
@pytest.mark.parametrize("growth", [1.0, 30.0])
def test_the_last_term_is_that_of_the_proof_up_to_a_constant(
    selected: int, local_steps: int, b: float, growth: float
) -> None:
    """r0 / (eta eps) at the largest eta of the proof, found by bisection of its inequalities.

    They are eta <= 1/(4 L K^2), rho >= 1/(5n) and -c2 - c1 d1 >= s eta / (2(n+1)), with the
    paper's kappa replaced by s/(2n(s+1)), which its own last lines give, and d1 = 5n 24 B^2 s^2 b
    eta^2. The printed term is off by any factor.
    """
    n, s, K, L, B = 100, selected, local_steps, 1.0, growth

    def holds(eta: float) -> bool:
        c1 = 20 * L**2 * s * eta / (n * (n + 1)) + 8 * s**2 * eta**2 * L**3 * b / (n * (n + 1) ** 2)
        c2 = s * eta / (n + 1) * (16 * L**2 * eta**2 * K**2 * B**2 - 0.75)
        c2 += 4 * L * s**2 * eta**2 * b * B**2 / (n + 1) ** 2
        d1 = 120 * n * B**2 * s**2 * b * eta**2
        rho = s / (2 * n * (s + 1)) - 48 * s**2 / n * L**2 * b * eta**2
        descends = -c2 - c1 * d1 >= s * eta / (2 * (n + 1))
        return descends and rho >= 1 / (5 * n) and eta <= 1 / (4 * L * K**2)

    low, high = 1e-12, 1.0
    while high / low > 1.0001:
        middle = (low * high) ** 0.5
        low, high = (middle, high) if holds(middle) else (low, middle)
    steps = 2 * (n + 1) / s / low  # F = L = eps = 1
    where = TheorySetting(clients=n, selected=s, local_steps=K, mean_a=1.0, b=b)
    problem = TheoryProblem(growth=growth)
    assert 8 <= steps / corollary(where, problem, 1.0).first <= 320
    if (s, K, b, growth) in ((1, 1000, 1.0, 1.0), (100, 1000, 400.0, 30.0)):
        assert not 1 <= steps / corollary(where, problem, 1.0, "printed").first <= 1000


@given(where=SETTINGS, problem=PROBLEMS)
def test_numbers_of_steps_have_no_unit(where: TheorySetting, problem: TheoryProblem) -> None:
    assert has_unit(lambda p, rate, eps: rounds_to_target(where, p, eps).total, problem, f=0, x=0)
    assert has_unit(lambda p, rate, eps: corollary(where, p, eps).total, problem, f=0, x=0)
    assert has_unit(
        lambda p, rate, eps: best_rate(full_expansion(where, p), largest_rate(where, p), 1000),
        problem, f=-1, x=2,
    )  # fmt: skip
    assert has_unit(
        lambda p, rate, eps: lemma_bound(full_expansion(where, p), largest_rate(where, p), 1000),
        problem, f=2, x=-2,
    )  # fmt: skip


def test_the_printed_corollary_has_no_consistent_unit() -> None:
    where = TheorySetting(clients=10, selected=2, local_steps=3, mean_a=0.5, b=1.2)
    assert not has_unit(
        lambda p, rate, eps: corollary(where, p, eps, "printed").middle, TheoryProblem(), f=0, x=0
    )


def test_the_best_rate_needs_fewer_steps_than_the_corollary() -> None:
    where = TheorySetting(clients=30, selected=6, local_steps=6, mean_a=0.4, b=1.3)
    safe = fewest_rounds(
        full_expansion(where, TheoryProblem()), largest_rate(where, TheoryProblem()), 0.5
    )
    assert safe.rounds < rounds_to_target(where, TheoryProblem(), 0.5).total


def test_degenerate_problems() -> None:
    """No noise, no dissimilarity: only the cap limits the step; no gap: nothing to do."""
    still = Expansion(r0=4.0, linear=0.0, quadratic=0.0)
    assert best_rate(still, cap=0.1, rounds=10) == lemma_rate(still, 0.1, 10) == 0.1
    assert fewest_rounds(still, cap=0.1, target=0.5) == (0.1, 80)
    assert best_rate(Expansion(0.0, 1.0, 1.0), cap=0.1, rounds=10) == 0.1
    assert best_rate(Expansion(1.0, 4.0, 0.0), cap=10, rounds=25) == pytest.approx(0.1)
    with pytest.raises(BadInput, match="target=-1: need 1e-30"):
        fewest_rounds(still, cap=0.1, target=-1)
    with pytest.raises(BadInput, match="cap=0: need a positive learning rate"):
        best_rate(still, cap=0, rounds=10)
