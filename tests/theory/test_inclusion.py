"""Chances in weighted selections against enumerations, and the law of steps that follows."""

from __future__ import annotations

from itertools import permutations
from math import sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from favano.errors import BadInput
from favano.policies import LeastRecent, Polling, Rounds, Selection, Weighted
from favano.schedule import plan
from favano.theory import expected_counts, inclusion, server_time, setting
from favano.timing import client_speeds, two_speeds
from favano.types import Floats


def enumerated(weights: Floats, size: int) -> Floats:
    """Over all orders in which clients may be drawn."""
    chances = np.zeros(len(weights))
    for order in permutations(range(len(weights)), size):
        chance, left = 1.0, float(weights.sum())
        for client in order:
            chance *= weights[client] / left
            left -= weights[client]
        chances[list(order)] += chance
    return chances


@given(
    st.lists(st.sampled_from([0.01, 0.3, 1.0, 1.0, 2.5, 70.0]), min_size=2, max_size=6), st.data()
)
def test_chances_are_those_of_an_enumeration(weights: list[float], data: st.DataObject) -> None:
    size, each = data.draw(st.integers(1, len(weights))), np.array(weights)
    np.testing.assert_allclose(inclusion(each, size), enumerated(each, size), rtol=1e-9)


def test_chances_of_many_clients_add_up() -> None:
    weights = np.random.default_rng(1).lognormal(0, 2, 150)
    chances = inclusion(weights, 30)
    assert chances.sum() == pytest.approx(30, abs=1e-9)
    assert (np.diff(chances[np.argsort(weights)]) >= 0).all()
    equal = inclusion(np.full(150, 3.0), 30)
    np.testing.assert_allclose(equal, 0.2, rtol=1e-10)


def test_the_law_of_steps_follows_the_chances() -> None:
    """Four kinds of clients: their frequencies in a long schedule, within four standard errors."""
    fleet = client_speeds(np.array([2.0, 2, 2, 16, 16, 16]))
    policy = Polling(
        selected=2,
        selection=Weighted(weights=(4.0, 4, 1, 4, 1, 1)),
        local_steps=5,
        waiting_time=2.0,
    )
    positive, mean = expected_counts(policy, fleet)
    uniform, _ = expected_counts(Polling(selected=2, local_steps=5, waiting_time=2.0), fleet)
    schedule = plan(policy, fleet, horizon=150_000, seed=3)
    used = slice(0, schedule.jobs)
    client, steps = schedule.client[used], schedule.steps[used]
    for who in range(6):
        made = steps[client == who]
        error = 4 * sqrt(positive[who] * (1 - positive[who]) / len(made))
        assert (made > 0).mean() == pytest.approx(positive[who], abs=error)
        assert made.mean() == pytest.approx(mean[who], abs=4 * made.std() / sqrt(len(made)))
    assert abs(positive[3] - uniform[3]) > 0.05  # so that the test can fail


@pytest.mark.parametrize("rule", [LeastRecent(), Weighted(weights=(2.0,) * 3 + (1.0,) * 6)])
def test_theorems_are_about_uniform_selections(rule: Selection) -> None:
    with pytest.raises(BadInput, match=r"selection=.*: need uniform"):
        setting(Polling(selected=2, selection=rule), two_speeds(9), "stochastic")


def test_a_selection_without_a_law_is_refused() -> None:
    with pytest.raises(BadInput, match=r"least-recent: has no exact law .* use weights"):
        expected_counts(Polling(selected=2, selection=LeastRecent()), two_speeds(9))


def test_the_length_of_rounds_follows_the_selection() -> None:
    """Slow clients are hardly ever selected: rounds are those of fast ones."""
    fleet = client_speeds(np.array([1.0] * 6 + [50.0] * 3))
    rare = Weighted(weights=(1e6,) * 6 + (1e-6,) * 3)
    times = [
        server_time(Rounds(selected=2, selection=rule, local_steps=2), fleet).mean
        for rule in (rare, Weighted(weights=(1.0,) * 9))
    ]
    assert times[0] < 10 < times[1]
