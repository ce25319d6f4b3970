"""Constants and settings that cannot be are refused by name."""

from __future__ import annotations

from itertools import product
from math import inf, isfinite
from typing import get_args

import pytest

from favano.errors import BadInput
from favano.theory import (
    Delays,
    Method,
    TheoryProblem,
    TheorySetting,
    best_rate,
    bound_assembled,
    bound_full,
    bound_short,
    fewest_rounds,
    full_expansion,
    largest_rate,
    lemma_rate,
    proof_conditions,
    rounds_to_target,
    table_complexity,
)
from favano.theory.problem import LARGEST, SMALLEST, PaperForm

GOOD = {"clients": 10, "selected": 3, "local_steps": 5, "mean_a": 0.5, "b": 1.5}


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("smoothness", 0.0, "need 1e-30..1e30"),
        ("smoothness", 1e-300, "need 1e-30..1e30"),
        ("smoothness", float("inf"), "need 1e-30..1e30"),
        ("noise", -0.1, "need 0..1e30"),
        ("noise", 1e200, "need 0..1e30"),
        ("dissimilarity", -1.0, "need 0..1e30"),
        ("growth", 0.9, "need 1..1e30"),
        ("growth", 1e200, "need 1..1e30"),
        ("gap", float("nan"), "need 0..1e30"),
    ],
)
def test_problems(name: str, value: float, rule: str) -> None:
    with pytest.raises(BadInput) as refused:
        TheoryProblem(**{name: value})
    assert str(refused.value) == f"{name}={value}: {rule}"


ENDS = {
    "smoothness": (SMALLEST, LARGEST),
    "noise": (0.0, 5e-324, 1e-160, LARGEST),
    "dissimilarity": (0.0, 5e-324, LARGEST),
    "growth": (1.0, LARGEST),
    "gap": (0.0, 5e-324, LARGEST),
}
SETTINGS = (
    TheorySetting(clients=10, selected=3, local_steps=5, mean_a=0.5, b=1.5),
    TheorySetting(clients=10**6, selected=10**5, local_steps=10**3, mean_a=1e3, b=1e3),
    TheorySetting(clients=10, selected=3, local_steps=5, mean_a=SMALLEST**-2, b=1 / SMALLEST),
)


@pytest.mark.parametrize("where", SETTINGS)
def test_formulas_hold_at_all_corners_of_the_constants(where: TheorySetting) -> None:
    """Python raises an error where a power overflows, or where a divisor gets too small."""
    for chosen in product(*ENDS.values()):
        problem = TheoryProblem(**dict(zip(ENDS, chosen, strict=True)))
        expansion, cap = full_expansion(where, problem), largest_rate(where, problem)
        assert all(isfinite(term) for term in expansion)
        assert 0 < cap < inf
        proof_conditions(where, problem)
        for rounds, rate in product((1, LARGEST), (cap, SMALLEST, 5e-324, LARGEST)):
            assert 0 <= best_rate(expansion, cap, rounds) <= cap
            assert 0 <= lemma_rate(expansion, cap, rounds) <= cap
            for bound in (bound_short, bound_full, bound_assembled):
                assert bound(where, problem, rate, rounds) >= 0
        for target in (SMALLEST, LARGEST):
            choice = fewest_rounds(expansion, cap, target)
            assert 0 < choice.rate <= cap
            assert 1 <= choice.rounds < inf
            assert 0 <= rounds_to_target(where, problem, target).total < inf
            for method, form in product(get_args(Method), get_args(PaperForm)):
                delays = Delays(largest=1e9, average=1e6, common_steps=1e-9)
                row = table_complexity(method, where, problem, target, delays=delays, form=form)
                assert 0 <= row.total < inf


@pytest.mark.parametrize(
    ("name", "value"),
    [("clients", 0), ("selected", 11), ("selected", 0), ("local_steps", 0), ("mean_a", -1.0),
     ("mean_a", float("nan")), ("b", 0.0), ("b", float("inf"))],
)  # fmt: skip
def test_settings(name: str, value: float) -> None:
    TheorySetting(**GOOD)  # type: ignore[arg-type]
    with pytest.raises(BadInput, match=f"{name}={value}: need"):
        TheorySetting(**{**GOOD, name: value})  # type: ignore[arg-type]
