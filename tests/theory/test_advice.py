"""Advice is the best of what was searched, and says how far it may be off."""

from __future__ import annotations

from dataclasses import replace

import pytest

from favano.errors import BadInput
from favano.policies import Polling
from favano.theory import (
    Estimate,
    Estimates,
    TheoryProblem,
    advise,
    bound_full,
    estimates_of,
    known,
    largest_rate,
    setting,
)
from favano.theory.advice import candidates
from favano.timing import Deterministic, two_speeds

POLICY, FLEET = Polling(selected=6, local_steps=8), two_speeds(30)
UNSURE = Estimates(
    smoothness=Estimate(2.0, 1.0, 4.0),
    noise=Estimate(1.0, 0.5, 2.0),
    dissimilarity=Estimate(0.3, 0.1, 0.9),
    growth=known(1.0),
    gap=known(2.0),
)


def test_the_advice_reaches_the_target_by_the_theorem() -> None:
    advice = advise(POLICY, FLEET, estimates_of(TheoryProblem()), target=0.2)
    policy = Polling(
        selected=advice.selected,
        local_steps=advice.local_steps,
        waiting_time=advice.tick - 3.0,
        interaction_time=3.0,
    )
    where = setting(policy, FLEET, "stochastic", "rigorous")
    assert advice.learning_rate <= largest_rate(where, TheoryProblem()) * (1 + 1e-12)
    assert bound_full(where, TheoryProblem(), advice.learning_rate, advice.rounds) <= 0.2 * (
        1 + 1e-9
    )
    assert advice.time == advice.tick * advice.rounds <= advice.present_time
    assert (advice.time_low, advice.time_high, advice.agreement) == (advice.time, advice.time, 1.0)


def test_no_candidate_is_better() -> None:
    advice = advise(POLICY, FLEET, estimates_of(TheoryProblem()), target=0.2, form="corrected")
    options = list(candidates(POLICY, FLEET, "stochastic", "corrected"))
    assert advice.time == min(option.time(TheoryProblem(), 0.2) for option in options)
    assert options[0].time(TheoryProblem(), 0.2) == advice.present_time
    assert (options[0].setting.selected, options[0].setting.local_steps) == (6, 8)
    assert options[0].tick == 7
    assert all(option.tick >= 3 for option in options)


def test_doubt_widens_the_answer() -> None:
    advice = advise(POLICY, FLEET, UNSURE, target=0.2)
    assert advice.time_low < advice.time < advice.time_high
    assert 0 < advice.agreement <= 1
    assert len(list(UNSURE.corners())) == 27
    assert next(UNSURE.corners()) == UNSURE.problem
    assert any("corners" in line for line in advice.how_sure)


def test_what_limits_the_learning_rate() -> None:
    loose = advise(POLICY, FLEET, estimates_of(TheoryProblem(noise=0, dissimilarity=0)), target=0.2)
    assert loose.limit.startswith("eta <= ")
    strict = advise(POLICY, FLEET, estimates_of(TheoryProblem(noise=5.0)), target=1e-3)
    assert strict.limit == "noise and dissimilarity at this target"


def test_ticks_too_short_for_somebody_are_left_out() -> None:
    """All clients at every tick, and constant steps: a short tick never lets the slow one end."""
    fleet = two_speeds(4, law=Deterministic())
    policy = Polling(selected=4, local_steps=3, waiting_time=20.0)
    options = list(candidates(policy, fleet, "deterministic", "corrected"))
    assert min(option.tick for option in options if option.setting.selected == 4) >= 16
    with pytest.raises(BadInput, match="the client can never finish a step"):
        next(candidates(replace(policy, waiting_time=2.0), fleet, "stochastic", "corrected"))


def test_bad_input_is_refused_by_name() -> None:
    with pytest.raises(BadInput, match="target=0"):
        advise(POLICY, FLEET, UNSURE, target=0)
    with pytest.raises(BadInput, match="need 0 <= low <= value <= high"):
        Estimate(1.0, 2.0, 3.0)
