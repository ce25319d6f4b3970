"""Learning rates: what the paper states, where it fails, and conditions that suffice."""

from __future__ import annotations

import pytest
from hypothesis import given

from favano.policies import Polling
from favano.theory import (
    TheoryProblem,
    TheorySetting,
    bound_assembled,
    bound_full,
    contraction,
    descent,
    descent_ratio,
    largest_rate,
    proof_conditions,
    setting,
    sufficient_conditions,
)
from favano.timing import two_speeds
from tests.theory.units import PROBLEMS, SETTINGS, has_unit


def where(local_steps: int, b: float = 1.0) -> TheorySetting:
    return TheorySetting(clients=100, selected=20, local_steps=local_steps, mean_a=0.34, b=b)


@pytest.mark.parametrize(
    ("local_steps", "ratio"),
    [(1, -12.904), (2, -2.102), (3, -0.102), (4, 0.599), (5, 0.923), (6, 1.099), (20, 1.464)],
)
def test_the_stated_condition_fails_for_few_local_steps(local_steps: int, ratio: float) -> None:
    rate = largest_rate(where(local_steps), TheoryProblem(), "printed")
    actual = descent_ratio(where(local_steps), TheoryProblem(), rate)
    assert actual == pytest.approx(ratio, abs=5.01e-4)


@given(setting_=SETTINGS, problem=PROBLEMS)
def test_the_sufficient_conditions_suffice(setting_: TheorySetting, problem: TheoryProblem) -> None:
    """For every n, s (1 included), K, b and constants: descent, contraction, and the bound."""
    rate = largest_rate(setting_, problem)
    n, s = setting_.clients, setting_.selected
    assert descent_ratio(setting_, problem, rate) >= 1 - 1e-12
    assert contraction(setting_, problem, rate) >= 1 / (5 * n) - 1e-15
    assert descent(setting_, problem, rate).margin >= s * rate / (2 * (n + 1)) * (1 - 1e-12)
    smaller = 0.999 * rate
    full = bound_full(setting_, problem, smaller, 100)
    assert bound_assembled(setting_, problem, smaller, 100) <= full


def test_the_first_condition_is_not_implied() -> None:
    """1/(4 L K^2) is missing from the statement and binds once K > 5 B^2 b s."""
    few = TheorySetting(clients=100, selected=1, local_steps=20, mean_a=0.34, b=1.0)
    local, *_, stated = proof_conditions(few, TheoryProblem())
    assert local.limit < stated.limit
    assert (local.stated, stated.stated) == (False, True)


@pytest.mark.parametrize(
    ("rule", "form", "rate"),
    [
        ("stochastic", "corrected", 9.258e-05),
        ("deterministic", "corrected", 5.619e-05),
        ("deterministic", "printed", 7.803e-06),
    ],
)
def test_admissible_steps_at_the_papers_constants(rule: str, form: str, rate: float) -> None:
    policy, fleet = Polling(selected=20, local_steps=20), two_speeds(100)
    case = setting(policy, fleet, rule, form)  # type: ignore[arg-type]
    assert largest_rate(case, TheoryProblem(), "printed") == pytest.approx(rate, rel=1e-3)


@given(setting_=SETTINGS, problem=PROBLEMS)
def test_units(setting_: TheorySetting, problem: TheoryProblem) -> None:
    for conditions in (proof_conditions, sufficient_conditions):
        for place in range(5):
            assert has_unit(
                lambda p, rate, target, c=conditions, k=place: c(setting_, p)[k].limit,  # type: ignore[misc]
                problem, f=-1, x=2,
            )  # fmt: skip
    assert has_unit(lambda p, rate, target: descent_ratio(setting_, p, rate), problem, f=0, x=0)
