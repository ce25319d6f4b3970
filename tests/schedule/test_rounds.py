"""Synchronous rounds from scripted durations, with client updates worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from favano.policies import Rounds
from favano.schedule import plan
from favano.timing import Deterministic, Trace, client_speeds, traced_fleet, two_speeds

# K = 2: client 0 needs 3, client 1 needs 7, client 2 needs 4 + 6 = 10
FLEET = traced_fleet(Trace((np.array([1.0, 2.0]), np.array([3.0, 4.0]), np.array([4.0, 6.0]))))


def test_a_round_lasts_as_long_as_its_slowest_client() -> None:
    schedule = plan(Rounds(selected=3, local_steps=2), FLEET, horizon=20, seed=0)
    assert schedule.time.tolist() == [13.0, 26.0]  # the second starts before 20 and is finished
    assert schedule.finish.tolist() == [3.0, 7.0, 10.0, 16.0, 20.0, 23.0]
    assert schedule.first_step.tolist() == [0, 0, 0, 2, 2, 2]
    dropped = plan(Rounds(selected=3, local_steps=2, drop_last=True), FLEET, horizon=20, seed=0)
    assert dropped.time.tolist() == [13.0]


def test_the_first_to_finish_count_and_the_rest_is_lost() -> None:
    policy = Rounds(selected=3, local_steps=2, wait_for=1)
    schedule = plan(policy, FLEET, horizon=7, seed=0)
    assert schedule.time.tolist() == [6.0, 12.0]
    assert schedule.client[: schedule.jobs].tolist() == [0, 0]
    # Client 1 has made its step of 3 by time 3; the 4 that follows is too long for round 2.
    assert schedule.wasted_steps.tolist() == [1, 0]
    unused = schedule.used_by == 2
    assert schedule.start_version[unused].tolist() == [-1, -1, 0, 0]
    assert schedule.first_step[unused].tolist() == [0, 0, 1, 0]


def test_a_recording_goes_on_where_the_deadline_stopped_it() -> None:
    """Until 8: 5, and 6 is lost; 7, and 5 is lost; ... Until 12: 5, 6; 7, 5; 6, and 7 is lost."""
    fleet = traced_fleet(Trace((np.array([5.0, 6.0, 7.0]),)))
    policy = Rounds(selected=1, local_steps=2, deadline=8, interaction_time=0, at_deadline="take")
    schedule = plan(policy, fleet, horizon=40, seed=0)
    assert schedule.steps[: schedule.jobs].tolist() == [1] * 5
    policy = Rounds(selected=1, local_steps=2, deadline=12, interaction_time=0)
    assert plan(policy, fleet, horizon=60, seed=0).time.tolist() == [11, 23, 35, 46, 58, 70]


def test_a_deadline_drops_the_slow() -> None:
    policy = Rounds(selected=3, local_steps=2, deadline=8)
    schedule = plan(policy, FLEET, horizon=5, seed=0)
    assert schedule.time.tolist() == [11.0]
    assert schedule.client[: schedule.jobs].tolist() == [0, 1]
    assert schedule.wasted_steps.tolist() == [1]
    nobody = plan(Rounds(selected=3, local_steps=2, deadline=1), FLEET, horizon=5, seed=0)
    assert nobody.jobs == 0
    assert nobody.time.tolist() == [4.0, 8.0]


def test_readings_of_the_round_time() -> None:
    draw = plan(Rounds(selected=3, local_steps=2, round_time="one-draw"), FLEET, horizon=5, seed=0)
    assert draw.time.tolist() == [11.0]  # 3 + 2 * max(1, 3, 4)
    mean = plan(Rounds(selected=3, local_steps=2, round_time="mean"), FLEET, horizon=5, seed=0)
    assert mean.time.tolist() == [13.0]  # 3 + 2 * max(1.5, 3.5, 5)


@pytest.mark.parametrize(
    ("fast", "reading", "expected"),
    [(2 / 3, "sum", 416.7), (1 / 9, "sum", 461.6), (2 / 3, "one-draw", 798), (1 / 9, "mean", 323)],
)
def test_mean_round_times_of_the_paper(fast: float, reading: str, expected: float) -> None:
    policy = Rounds(selected=20, local_steps=20, round_time=reading)  # type: ignore[arg-type]
    fleet = two_speeds(100, fast_fraction=fast)
    schedule = plan(policy, fleet, horizon=1_000_000, seed=0)
    lengths = np.diff(schedule.time)
    error = lengths.std() / np.sqrt(len(lengths))
    assert lengths.mean() == pytest.approx(expected, abs=3 * error + 0.1)


def test_mean_step_of_the_reset_mode() -> None:
    policy = Rounds(selected=100, wait_for=10, local_steps=20)
    schedule = plan(policy, two_speeds(100), horizon=20_000, seed=0)
    assert np.diff(schedule.time).mean() == pytest.approx(36.2, rel=0.02)


def test_a_round_that_ends_at_the_horizon_is_kept_and_none_begins_there() -> None:
    dropping = Rounds(selected=3, local_steps=2, drop_last=True)
    assert plan(dropping, FLEET, horizon=26, seed=0).time.tolist() == [13.0, 26.0]
    assert plan(dropping, FLEET, horizon=25.9, seed=0).time.tolist() == [13.0]
    assert plan(Rounds(selected=3, local_steps=2), FLEET, horizon=13, seed=0).updates == 1


def test_ties_are_drawn() -> None:
    """Six clients always finish together; each is among the two that count in a third of rounds."""
    fleet = client_speeds(np.full(6, 2.0), Deterministic())
    policy = Rounds(selected=6, wait_for=2, local_steps=1, interaction_time=0)
    schedule = plan(policy, fleet, horizon=6000, seed=0)
    counted = np.bincount(schedule.client[: schedule.jobs], minlength=6)
    assert schedule.updates == 3000
    assert counted == pytest.approx(1000, abs=5 * np.sqrt(3000 * 2 / 9))
    pairs = {tuple(pair) for pair in schedule.client[: schedule.jobs].reshape(-1, 2).tolist()}
    assert len(pairs) == 15
