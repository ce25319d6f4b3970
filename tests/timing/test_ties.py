"""Times that are equal but for rounding, in every policy: worked out by hand in decimal numbers."""

from __future__ import annotations

import numpy as np
import pytest

from favano.planning.audit import audit
from favano.planning.planned import plan_seed
from favano.policies import Adaptive, Buffered, Polling, Rounds, Windowed
from favano.schedule import plan, under_way
from favano.timing import ClientSpeeds, Deterministic, Trace, client_speeds, traced_fleet
from favano.timing.ties import in_order
from tests.specs import complete


def constant(*means: float) -> ClientSpeeds:
    return client_speeds(np.array(means), Deterministic())


@pytest.mark.parametrize(("strict", "least"), [(False, 1), (True, 0)])
def test_a_step_as_long_as_the_window_between_contacts(strict: bool, least: int) -> None:
    """Steps of 0.9 and contacts every 0.6 + 0.3: after g rounds a client has made g steps."""
    policy = Polling(
        selected=1, local_steps=9, waiting_time=0.6, interaction_time=0.3, strict_ties=strict
    )
    schedule = plan(policy, constant(0.9, 0.9), horizon=900.0, seed=0)
    used = slice(0, schedule.jobs)
    gap = (schedule.used_by - schedule.start_version)[used]
    assert schedule.steps[used].tolist() == np.minimum(gap - (1 - least), 9).tolist()


def test_a_plan_of_tied_steps_is_fair() -> None:
    """Means of 0.3 and 0.9: whether a slow step counts was left to the rounding of the clock."""
    keys = {"waiting_time": 0.6, "interaction_time": 0.3, "fast_mean": 0.3, "slow_mean": 0.9}
    spec = complete(
        **keys, clients=20, selected=5, fast_fraction=0.5, step_law="deterministic", horizon=900.0
    )
    planned = plan_seed(spec, 0)
    record = audit(planned, planned.weights)
    assert record.verdict.startswith("shows no significant bias")
    assert record.speeds[0].weight == pytest.approx(0.5, abs=0.03)


def test_the_last_contact_is_at_the_horizon_not_past_it() -> None:
    """3 times 0.1 is more than 0.3; what is after the horizon is not shown."""
    poll = Polling(selected=1, local_steps=1, waiting_time=0.1, interaction_time=0.0)
    for policy in (poll, Windowed(period=0.1, local_steps=1)):
        schedule = plan(policy, constant(0.05), horizon=0.3, seed=0)
        assert (schedule.updates, schedule.time[-1]) == (3, 0.3)
        assert schedule.versions_at(np.array([0.1, 0.2, 0.3])).tolist() == [0, 1, 2]
    rounds = Rounds(selected=1, local_steps=1, interaction_time=0.0, drop_last=True)
    schedule = plan(rounds, constant(0.1), horizon=0.3, seed=0)
    assert (schedule.updates, schedule.time[-1]) == (3, 0.3)
    rounds = Rounds(selected=1, local_steps=1, interaction_time=0.0)
    assert plan(rounds, constant(0.1), horizon=0.8, seed=0).updates == 8  # 8 x 0.1 < 0.8


def test_a_model_of_the_time_of_an_evaluation_is_the_evaluated_one() -> None:
    policy = Polling(selected=1, local_steps=1, waiting_time=0.1, interaction_time=0.0)
    schedule = plan(policy, constant(0.05), horizon=2.0, seed=0)
    tenths = np.array([float(f"0.{k}") for k in range(1, 10)])
    assert schedule.versions_at(tenths).tolist() == list(range(9))


def test_answers_at_the_deadline_count() -> None:
    """0.1 + 0.1 + 0.1 is more than 0.3."""
    rounds = Rounds(selected=1, local_steps=3, interaction_time=0.0, deadline=0.3)
    schedule = plan(rounds, constant(0.1), horizon=3.0, seed=0)
    assert schedule.jobs == schedule.updates == 10


def test_equal_answers_are_used_by_chance_not_by_rounding() -> None:
    """0.1 + 0.2 against 0.15 + 0.15: a round waits for one of the two, each about half the time."""
    fleet = traced_fleet(Trace((np.array([0.1, 0.2]), np.array([0.15, 0.15]))))
    rounds = Rounds(selected=2, local_steps=2, interaction_time=0.0, wait_for=1)
    schedule = plan(rounds, fleet, horizon=60.0, seed=0)
    first = float((schedule.client[: schedule.jobs] == 0).mean())
    assert 0.35 < first < 0.65  # of 200


def test_equal_arrivals_are_handled_by_chance_not_by_rounding() -> None:
    """Every third answer of steps of 0.3 comes with one of a step of 0.9."""
    policy = Buffered(
        buffer=1, local_steps=1, hand_out="arrival", interaction_time=0.0, latency="none"
    )
    schedule = plan(policy, constant(0.3, 0.9), horizon=540.0, seed=0)
    order = schedule.client[: schedule.jobs]
    slow = np.flatnonzero(order == 1)
    fast_before = np.cumsum(order == 0)[slow]
    late = fast_before == 3 * np.arange(1, len(slow) + 1)  # after the tied fast one
    assert len(slow) > 500
    assert 0.4 < late.mean() < 0.6
    adaptive = Adaptive(local_steps=1, most_steps=1, latency="none")
    growing = plan(adaptive, constant(0.3, 0.9), horizon=540.0, seed=0)
    assert growing.client[: schedule.jobs].tolist() == order.tolist()


def test_progress_at_a_tied_time() -> None:
    policy = Polling(selected=1, local_steps=9, waiting_time=100.0)
    fleet = constant(0.1)
    schedule = plan(policy, fleet, horizon=200.0, seed=0)
    for k in range(1, 10):
        assert under_way(schedule, policy, fleet, time=float(f"0.{k}"), seed=0).steps == [k]


def test_windows_by_the_rule_of_contacts() -> None:
    """Jobs of 3 x 0.1 last one window of 0.3, also after a thousand windows."""
    schedule = plan(Windowed(period=0.3, local_steps=3), constant(0.1), horizon=3000.0, seed=0)
    assert schedule.updates == schedule.jobs == 10_000


def test_what_is_apart_by_a_part_in_a_million_is_not_equal() -> None:
    assert in_order(1.0) < in_order(1.000001)
    policy = Polling(selected=1, local_steps=1, waiting_time=1.0, interaction_time=0.0)
    assert not plan(policy, constant(1.000001), horizon=50.0, seed=0).used_steps
