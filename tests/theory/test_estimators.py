"""Unbiased messages and their variances, against draws and the numbers at the paper's constants."""

from __future__ import annotations

import numpy as np
import pytest

from favano.errors import BadInput
from favano.policies import Polling
from favano.theory import Rule, StepCount, estimator_mean, estimator_variance, step_count, weight
from favano.timing import Geometric

PAPER = {
    name: step_count(Polling(selected=20, local_steps=20), clients=100, law=Geometric(), mean=mean)
    for name, mean in (("fast", 2.0), ("slow", 16.0))
}


@pytest.mark.parametrize(
    ("name", "rule", "of_mean", "of_noise", "digits"),
    [
        ("fast", "stochastic", 0.0016, 0.1353, 4),
        ("fast", "deterministic", 0.282, 0.0800, 3),
        ("slow", "stochastic", 0.350, 0.7446, 3),
        ("slow", "deterministic", 1.225, 0.4573, 3),
    ],
)
def test_published_variances(
    name: str, rule: Rule, of_mean: float, of_noise: float, digits: int
) -> None:
    law = PAPER[name]
    variance = estimator_variance(law, rule, mean=1.0, variance=0.0)
    assert variance == pytest.approx(of_mean, abs=0.501 * 10**-digits)
    variance = estimator_variance(law, rule, mean=0.0, variance=1.0)
    assert variance == pytest.approx(of_noise, abs=5.01e-5)


@pytest.mark.parametrize("rule", ["stochastic", "deterministic"])
@pytest.mark.parametrize("name", ["fast", "slow"])
def test_drawn_messages(name: str, rule: Rule) -> None:
    """Mean and variance of 200,000 messages, within four standard errors."""
    law, mean, spread, draws = PAPER[name], 1.7, 2.3, 200_000
    generator = np.random.default_rng(7)
    steps = generator.choice(21, size=draws, p=law.pmf / law.pmf.sum())
    total = mean * steps + spread * np.sqrt(steps) * generator.normal(size=draws)
    message = total / weight(law, rule)[steps]
    variance = estimator_variance(law, rule, mean=mean, variance=spread**2)
    assert message.mean() == pytest.approx(mean, abs=4 * np.sqrt(variance / draws))
    square = (message - mean) ** 2
    assert square.mean() == pytest.approx(variance, abs=4 * square.std() / np.sqrt(draws))


@pytest.mark.parametrize("law", PAPER.values())
def test_both_rules_are_unbiased_and_others_are_not(law: StepCount) -> None:
    for rule in ("stochastic", "deterministic"):
        assert estimator_mean(law, weight(law, rule)) == pytest.approx(1, abs=1e-12)
    assert estimator_mean(law, np.ones(21)) == pytest.approx(law.mean)
    by_steps = np.maximum(law.counts, 1)
    assert estimator_mean(law, by_steps) == pytest.approx(law.p_positive)


def test_the_rules_agree_where_the_number_of_steps_is_certain() -> None:
    always = StepCount(np.array([0.0, 0.0, 0.0, 1.0]))
    variances = {
        rule: estimator_variance(always, rule, mean=2.0, variance=3.0)
        for rule in ("stochastic", "deterministic")
    }
    assert variances == {"stochastic": 1.0, "deterministic": 1.0}


def test_a_client_that_never_finishes_is_refused() -> None:
    never = StepCount(np.array([1.0, 0.0]))
    with pytest.raises(BadInput, match=r"P\(E > 0\)=0.0: the client can never finish a step"):
        weight(never, "stochastic")
    with pytest.raises(BadInput, match="variance=-1"):
        estimator_variance(PAPER["fast"], "stochastic", mean=0.0, variance=-1)
