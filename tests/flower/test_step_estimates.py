"""Estimates of clients' steps against the law that `theory` has for them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from favano.flower.step_estimates import PRIOR, StepEstimates
from favano.policies import Polling
from favano.schedule import plan
from favano.theory import expected_counts, step_count
from favano.timing import Deterministic, Exponential, LogNormal, StepLaw, client_speeds
from favano.types import Floats

POLICY = Polling(selected=2, local_steps=8, waiting_time=4.0, interaction_time=3.0)
MEANS = np.array([1.0, 2.5, 6.0, 20.0, 60.0])


def lived(law: StepLaw, ticks: int) -> tuple[StepEstimates, Floats, Floats]:
    """Estimates after a run in virtual time, and the true numbers."""
    fleet = client_speeds(MEANS, law)
    drawn = plan(POLICY, fleet, horizon=ticks * POLICY.period, seed=5)
    estimates = StepEstimates(POLICY, len(MEANS), step_seconds=3.0)
    used = slice(0, drawn.jobs)
    window = drawn.finish[used] - drawn.begin[used]
    for client, steps, length in zip(drawn.client[used], drawn.steps[used], window, strict=True):
        trained = min(float(length), steps * MEANS[client])
        estimates.count(int(client), int(steps), trained if steps else 0.0, trained)
    return estimates, *expected_counts(POLICY, fleet)


@pytest.mark.parametrize("law", [Deterministic(), Exponential(), LogNormal(0.5)])
def test_estimates_approach_the_law_of_the_steps(law: StepLaw) -> None:
    everyone = np.arange(len(MEANS))
    distances = []
    for ticks in (50, 5_000):
        estimates, positive, mean = lived(law, ticks)
        expected, bound = estimates.expected(everyone), estimates.errors(everyone)
        distances.append(np.abs(expected.mean - mean).max())
        assert (np.abs(expected.positive - positive) <= bound.positive).all()
        assert (np.abs(expected.mean - mean) <= bound.mean).all()
    assert distances[1] < 0.15 < POLICY.longest_job
    assert (bound.positive < 0.05).all()


def test_the_prior_is_the_law_for_the_step_times_seen() -> None:
    """A client whose steps are timed once: its first estimate is nearly that of the theory."""
    estimates = StepEstimates(POLICY, 5, step_seconds=1.0)
    law = step_count(POLICY, clients=5, law=Deterministic(), mean=1.0)
    assert estimates.expected(np.array([0])).mean[0] == pytest.approx(law.mean)
    estimates.count(0, 0, 0.0, 0.0)
    estimates.count(0, 8, 8 * 20.0, 160.0)
    slow = step_count(POLICY, clients=5, law=Deterministic(), mean=20.0)
    expected = estimates.expected(np.array([0]))
    assert expected.mean[0] == pytest.approx((PRIOR * slow.mean + 8) / (PRIOR + 2))
    assert expected.positive[0] == pytest.approx((PRIOR * slow.p_positive + 1) / (PRIOR + 2))


def test_time_lost_at_contacts_is_no_time_to_train() -> None:
    """Steps of 6 s fit into a tick of 7 s, but not if 2 s of it are lost."""
    quick, slow = (StepEstimates(POLICY, 2, step_seconds=6.0, lost=lost) for lost in (0.0, 2.0))
    client = np.array([0])
    assert quick.expected(client).positive[0] == 1.0
    late = replace(POLICY, waiting_time=5.0, interaction_time=2.0, idle_in_interaction=True)
    wanted = step_count(late, clients=2, law=Deterministic(), mean=6.0)
    assert slow.expected(client).positive[0] == pytest.approx(max(wanted.p_positive, 0.2))
    quick.count(0, 1, 5.0, 7.0)
    assert quick.lost_seconds.tolist() == [2.0, 0.0]
    quick.count(0, 8, 48.0, 49.0)
    assert quick.lost_seconds[0] == 1.5
    quick.count(0, 1, 6.0, 60.0)  # the server was down
    assert quick.lost_seconds[0] == 2.0


def test_bounds_before_anything_was_seen() -> None:
    bound = StepEstimates(POLICY, 3).errors(np.arange(3))
    assert bound.positive.tolist() == [1.0] * 3
    assert bound.mean.tolist() == [8.0] * 3


def test_clocks_that_disagree_lose_no_time() -> None:
    """A client that says it trained longer than it was away has lost nothing."""
    estimates = StepEstimates(POLICY, 1)
    estimates.count(0, 1, 7.0, 6.5)
    assert estimates.lost_seconds.tolist() == [0.0]


def test_time_lost_anew_changes_what_is_expected() -> None:
    """Steps of 6 s: no step fits in where 5 of 7 seconds are lost, and a tick may be lost whole."""
    client, law = np.array([0]), Deterministic()
    estimates = StepEstimates(POLICY, 1, step_seconds=6.0)
    assert estimates.expected(client).positive[0] == 1.0
    for _ in range(5):
        estimates.count(0, 1, 6.0, 11.0)
    late = replace(
        POLICY, selected=1, waiting_time=2.0, interaction_time=5.0, idle_in_interaction=True
    )
    prior = step_count(late, clients=1, law=law, mean=6.0)
    assert prior.p_positive < 1
    wanted = (PRIOR * prior.p_positive + 5) / (PRIOR + 5)
    assert estimates.expected(client).positive[0] == pytest.approx(wanted)
    lost = StepEstimates(POLICY, 1, step_seconds=6.0, lost=100.0).expected(client)
    assert 0 < lost.positive[0] <= 0.2


def test_bounds_by_hand() -> None:
    """All of 8 steps at each of 50 contacts: the prior's part, and Hoeffding's."""
    estimates, client = StepEstimates(POLICY, 1, step_seconds=0.1), np.array([0])
    for _ in range(50):
        estimates.count(0, 8, 0.8, 0.8)
    expected, bound = estimates.expected(client), estimates.errors(client)
    assert (expected.positive[0], expected.mean[0]) == (1.0, pytest.approx(8.0))
    hoeffding = np.sqrt(np.log(2 / 0.05) / (2 * 50))
    assert bound.positive[0] == pytest.approx(hoeffding)
    assert bound.mean[0] == pytest.approx(8 * hoeffding)
