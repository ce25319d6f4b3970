"""How many windows a job lasts: against sums by hand, draws, and the planner itself."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from favano.policies import Windowed
from favano.schedule import plan
from favano.theory import expected_windows, job_windows
from favano.timing import (
    Deterministic,
    Exponential,
    Geometric,
    LogNormal,
    StepLaw,
    Trace,
    client_speeds,
    traced_fleet,
    two_speeds,
)


def test_one_geometric_step_by_hand() -> None:
    """P(T > 7 k) = (1 - lambda)^(7 k): a geometric sum; with windows of 1, the mean itself."""
    for mean in (2.0, 16.0):
        rest = (1 - 1 / mean) ** 7
        assert job_windows(Geometric(), mean, 1, 7.0) == pytest.approx(1 / (1 - rest), rel=1e-13)
        assert job_windows(Geometric(), mean, 20, 1.0) == pytest.approx(20 * mean, rel=1e-13)
    assert job_windows(Geometric(), 1.0, 5, 2.0) == 3.0
    assert job_windows(Geometric(), 2.0, 5, 2.5) > job_windows(Geometric(), 2.0, 5, 3.0) > 1.0


def test_one_exponential_step_by_hand() -> None:
    rest = np.exp(-7 / 16)
    assert job_windows(Exponential(), 16.0, 1, 7.0) == pytest.approx(1 / (1 - rest), rel=1e-13)


def test_several_steps_against_the_distribution_functions_of_scipy() -> None:
    ticks = 7.0 * np.arange(400)
    negative = stats.nbinom(20, 1 / 16).sf(ticks - 20).sum()  # failures before the 20th success
    assert job_windows(Geometric(), 16.0, 20, 7.0) == pytest.approx(negative, rel=1e-12)
    gamma = stats.gamma(20, scale=16.0).sf(ticks).sum()
    assert job_windows(Exponential(), 16.0, 20, 7.0) == pytest.approx(gamma, rel=1e-12)


def test_constant_steps_and_recordings() -> None:
    fleet = client_speeds(np.array([2.0, 3.5, 16.0]), Deterministic())
    assert expected_windows(Windowed(period=7.0, local_steps=2), fleet).tolist() == [1.0, 1.0, 5.0]
    # two steps a job: 1 + 5, 9 + 1, 5 + 9 of a recording of three
    trace = traced_fleet(Trace((np.array([1.0, 5.0, 9.0]), np.array([7.0]))))
    windows = expected_windows(Windowed(period=7.0, local_steps=2), trace)
    assert windows == pytest.approx([(1 + 2 + 2) / 3, 2.0])


@pytest.mark.parametrize("spread", [0.05, 0.7, 2.0])
def test_one_lognormal_step_by_hand(spread: float) -> None:
    """One step has a distribution function of its own: P(T > 7 k), summed until nothing is left."""
    law = stats.lognorm(spread, scale=16.0 * np.exp(-(spread**2) / 2))
    expected = law.sf(7.0 * np.arange(2_000_000)).sum()
    assert job_windows(LogNormal(spread), 16.0, 1, 7.0) == pytest.approx(expected, rel=1e-5)


@pytest.mark.quick("Exponential()")
@pytest.mark.parametrize(
    "law", [Geometric(), Exponential(), Deterministic(), LogNormal(0.7)], ids=str
)
def test_takes_part_once_in_so_many_ticks(law: StepLaw) -> None:
    """The renewal theorem, counted on the planner's own schedules: rate times windows is 1."""
    fleet = two_speeds(40, law=law, seed=1)
    policy = Windowed(period=7.0, local_steps=4)
    schedule = plan(policy, fleet, horizon=7 * 8000, seed=1)
    used = schedule.client[: schedule.jobs]
    rate = np.bincount(used, minlength=40) / schedule.updates
    slow = fleet.mean == 16
    product = rate * expected_windows(policy, fleet)
    assert product[slow].mean() == pytest.approx(1.0, abs=0.015)
    assert product[~slow].mean() == pytest.approx(1.0, abs=0.015)


def test_a_recorded_job_as_long_as_a_window_lasts_one() -> None:
    """Although 0.1 + 0.1 + 0.1 is a little more than 0.3."""
    fleet = traced_fleet(Trace((np.array([0.1]), np.array([0.1, 0.2]))))
    windows = expected_windows(Windowed(period=0.3, local_steps=3), fleet)
    assert windows.tolist() == [1.0, 2.0]
