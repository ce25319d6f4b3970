"""a_i and b: published numbers, where the printed form fails, and the second-moment lemma."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from favano.policies import Polling
from favano.theory import (
    Form,
    Rule,
    StepCount,
    TheoryProblem,
    bound_full,
    bound_short,
    coefficients,
    largest_rate,
    setting,
    step_count,
)
from favano.theory.coefficients import setting_of
from favano.theory.steps import ClassLaw
from favano.timing import Geometric, two_speeds

POLICY = Polling(selected=20, local_steps=20)


@pytest.mark.parametrize(
    ("rule", "form", "third_slow", "most_slow", "b"),
    [
        ("stochastic", "corrected", 0.3391, 0.6808, 1.3502),
        ("stochastic", "printed", 0.3391, 0.6808, 1.3502),
        ("deterministic", "corrected", 0.2085, 0.4211, 2.2248),
        ("deterministic", "printed", 0.2354, 0.4310, 16.0193),
    ],
)
def test_published_numbers(
    rule: Rule, form: Form, third_slow: float, most_slow: float, b: float
) -> None:
    for share, mean_a in ((2 / 3, third_slow), (1 / 9, most_slow)):
        where = setting(POLICY, two_speeds(100, fast_fraction=share), rule, form)
        assert where.mean_a == pytest.approx(mean_a, abs=5.01e-5)
        assert where.b == pytest.approx(b, abs=5.01e-5)


@pytest.mark.parametrize(
    ("mean", "stochastic", "deterministic"), [(2.0, 0.13776, 0.08325), (16.0, 0.74797, 0.46281)]
)
def test_published_numbers_of_a_client(
    mean: float, stochastic: float, deterministic: float
) -> None:
    law = step_count(POLICY, clients=100, law=Geometric(), mean=mean)
    assert coefficients(law, "stochastic").a == pytest.approx(stochastic, abs=5.01e-6)
    assert coefficients(law, "deterministic").a == pytest.approx(deterministic, abs=5.01e-6)


@pytest.mark.parametrize(
    ("selected", "printed", "right"), [(50, 2.250, 2.571), (100, 1.375, 3.143)]
)
def test_the_printed_b_is_too_small_where_few_steps_are_made(
    selected: int, printed: float, right: float
) -> None:
    policy = Polling(selected=selected, local_steps=20)
    slow = step_count(policy, clients=100, law=Geometric(), mean=16.0)
    assert coefficients(slow, "deterministic", "printed").b == pytest.approx(printed, abs=5.1e-4)
    assert coefficients(slow, "deterministic").b == pytest.approx(right, abs=5.1e-4)


def test_the_printed_theorem_is_false_where_few_steps_are_made() -> None:
    """Algorithm 1 with n = s = K = 1, f = x^2/2, no noise, X = 1 with probability p = 0.02.

    The printed b allows eta = 1/20. The mean of ||grad f||^2 over simulated runs is above the
    printed bound, and below the corrected one at the learning rate that the corrected b allows.
    """
    chance, rounds, runs = 0.02, 2000, 5_000
    law, still = (
        StepCount(np.array([1 - chance, chance])),
        TheoryProblem(noise=0, dissimilarity=0, gap=0.5),
    )
    generator = np.random.default_rng(0)
    by_form = {}
    for form in ("printed", "corrected"):
        where = setting_of([ClassLaw(np.array([0]), law)], 1, "deterministic", form)
        rate = largest_rate(where, still, form)
        server, total = np.ones(runs), np.zeros(runs)
        for _ in range(rounds):
            total += server**2  # mu = w = w^1
            made = generator.random(runs) < chance
            sent = server - made * rate * server / chance
            server = (server + sent) / 2
        bound = bound_short if form == "printed" else bound_full
        by_form[form] = (total.mean() / rounds, bound(where, still, rate, rounds), rate)
    mean, bound_, rate = by_form["printed"]
    assert (rate, bound_) == pytest.approx((1 / 20, 0.02))
    assert mean == pytest.approx(0.0267, abs=1e-3)
    assert mean > 1.2 * bound_
    assert by_form["corrected"][0] < by_form["corrected"][1]


@pytest.mark.parametrize(("chance", "holds"), [(0.02, False), (0.024, False), (0.026, True)])
def test_it_is_false_below_a_fortieth(chance: float, holds: bool) -> None:
    """E x_t^2 = q^t with q = 1 - eta + eta^2/(4p), against 2/(T eta), for many steps."""
    eta, rounds = 1 / 20, 10**6
    ratio = 1 - eta + eta**2 / (4 * chance)
    mean = (1 - ratio**rounds) / (rounds * (1 - ratio))
    assert (mean <= 2 / (rounds * eta)) == holds


def test_certain_steps_give_b_of_one() -> None:
    always = StepCount(np.array([0.0, 0.0, 0.0, 1.0]))
    for rule in ("stochastic", "deterministic"):
        assert coefficients(always, rule).b == pytest.approx(1)
    assert coefficients(always, "deterministic", "printed").b == pytest.approx(3)


@pytest.mark.parametrize("rule", ["stochastic", "deterministic"])
def test_second_moment_lemma_with_dependent_steps(rule: Rule) -> None:
    """E||h||^2 <= B E[X^2/alpha^2] + (13/12) sigma^2 E[X/alpha^2] for SGD on a quadratic.

    B = sigma^2/K^2 + 16 L^2 ||w - mu||^2 + 8 ||grad f_i(mu)||^2, eta just below 1/(4 L K^2).
    """
    steps, sigma, draws, size = 6, 1.3, 40_000, 3
    law = step_count(Polling(selected=3, local_steps=steps), clients=12, law=Geometric(), mean=5.0)
    rate = 0.99 / (4 * steps**2)
    generator = np.random.default_rng(1)
    start, mean = np.full(size, 0.8), np.zeros(size)
    made = generator.choice(steps + 1, size=draws, p=law.pmf / law.pmf.sum())
    at, total = np.tile(start, (draws, 1)), np.zeros((draws, size))
    for step in range(steps):
        gradient = at - 0.3 + sigma / np.sqrt(size) * generator.normal(size=(draws, size))
        active = (step < made)[:, None]
        total += active * gradient
        at = at - rate * active * gradient
    alpha = law.p_positive * made if rule == "stochastic" else np.full(draws, law.mean)
    message = total / np.maximum(alpha, 1e-300)[:, None]
    square = (message**2).sum(axis=1)
    terms = coefficients(law, rule, "rigorous")
    rest = 16 * ((start - mean) ** 2).sum() + 8 * size * 0.3**2
    bound = sigma**2 * terms.a + terms.b * rest
    assert square.mean() + 4 * square.std() / np.sqrt(draws) < bound


def test_forms_are_ordered() -> None:
    """Rigorous is corrected with 13/12 on a part of a; b does not change."""
    for mean in (2.0, 16.0):
        law = step_count(POLICY, clients=100, law=Geometric(), mean=mean)
        for rule in ("stochastic", "deterministic"):
            right, rigorous = coefficients(law, rule), coefficients(law, rule, "rigorous")
            assert right.a < rigorous.a < 13 / 12 * right.a
            assert right.b == rigorous.b
        more = [coefficients(law.capped(k), "stochastic").a for k in (1, 5, 20)]
        assert all(high > low for high, low in pairwise(more))
