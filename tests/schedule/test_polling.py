"""Polling from scripted durations, with client updates worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from favano.policies import Polling
from favano.schedule import plan
from favano.schedule.polling import contact_times
from favano.timing import Trace, traced_fleet, two_speeds


def everyone(**options: object) -> Polling:
    return Polling(selected=1, local_steps=3, **options)  # type: ignore[arg-type]


def steps_of(row: list[float], policy: Polling, horizon: float = 21) -> list[int]:
    schedule = plan(policy, traced_fleet(Trace((np.array(row),))), horizon=horizon, seed=0)
    return [int(steps) for steps in schedule.steps[: schedule.jobs]]


def test_steps_within_each_window_of_seven() -> None:
    # job 0 plays 3, 4: the tie at 7 counts, and the step of 8 has not begun: 2 steps
    # job 1 plays 8: nothing in time; job 2 plays 2, 2, 2: all 3
    row = [3.0, 4.0, 8.0, 2.0, 2.0, 2.0]
    assert steps_of(row, everyone()) == [2, 0, 3]
    assert steps_of(row, everyone(strict_ties=True)) == [1, 0, 3]
    assert steps_of(row, everyone(idle_in_interaction=True)) == [1, 0, 2]


def test_what_becomes_of_the_step_under_way() -> None:
    row = [3.0, 6.0, 1.0, 5.0, 1.0, 1.0, 2.0, 2.0, 2.0]
    # window 1: 3 done, the step of 6 has run 4 of its units: it is lost; then 1, 5, 1 and 1, 2, 2
    assert steps_of(row, everyone()) == [1, 3, 3]
    # resume: 2 units left, then 1, then 4 units of 5; 1 left, then 1, 2
    assert steps_of(row, everyone(interruption="resume")) == [1, 2, 3]
    # keep: the full 6 again, then 1 (ends 7, a tie); then 5, 1, 1
    assert steps_of(row, everyone(interruption="keep")) == [1, 2, 3]
    long = [100.0, 1.0, 1.0]
    assert steps_of(long, everyone(), horizon=70) == [0] + [2] * 9
    assert steps_of(long, everyone(interruption="keep"), horizon=70) == [0] * 10
    resumed = steps_of(long, everyone(interruption="resume"), horizon=140)
    assert resumed[:15] == [0] * 14 + [3]


def test_a_recording_goes_on_where_it_stopped() -> None:
    """Lines 1, 30: every window of 7 sees the 1, and loses the 30 that it has begun."""
    assert steps_of([1.0, 30.0], Polling(selected=1, local_steps=2), horizon=70) == [1] * 10
    # 5 is made, 6 lost, 4 made, 5 lost, 6 made, 4 lost: no line is left out
    assert steps_of([5.0, 6.0, 4.0], Polling(selected=1, local_steps=2), horizon=42) == [1] * 6


def test_lines_are_played_in_order_without_a_gap() -> None:
    """Against a loop over contacts: the lines of each job follow those of the job before."""
    row, policy = [2.5, 1.0, 9.0, 0.5, 3.0], Polling(selected=1, local_steps=4)
    fleet = traced_fleet(Trace((np.array(row), np.array([1.0]))))
    schedule = plan(policy, fleet, horizon=1400, seed=2)
    mine = np.flatnonzero((schedule.client == 0) & (schedule.used_by < schedule.updates))
    line = 0
    for job in mine:
        left, steps = schedule.finish[job] - schedule.begin[job], 0
        while steps < 4 and left > 0:
            left -= row[line % 5]
            line += 1
            steps += left >= 0
        assert schedule.steps[job] == steps


def test_contact_times_and_their_options() -> None:
    policy = Polling(selected=1, local_steps=1)
    assert contact_times(policy, 5000)[[0, -1]].tolist() == [7, 4998]
    assert len(contact_times(policy, 5000)) == 714
    assert len(contact_times(policy, 10000)) == 1428
    overrun = Polling(selected=1, local_steps=1, overrun=True)
    assert len(contact_times(overrun, 5000)) == 715
    assert contact_times(overrun, 5000)[-1] == 5005
    assert contact_times(overrun, 70)[-1] == 70
    zero = Polling(selected=1, local_steps=1, starts_at_zero=True)
    assert contact_times(zero, 5000)[[0, -1]].tolist() == [0, 4998]
    both = Polling(selected=1, local_steps=1, starts_at_zero=True, overrun=True)
    assert contact_times(both, 100)[[0, -1]].tolist() == [0, 105]
    assert contact_times(both, 98)[[0, -1]].tolist() == [0, 98]
    assert len(contact_times(both, 5000)) == len(contact_times(overrun, 5000)) + 1


def test_a_first_contact_at_zero_finds_nothing() -> None:
    schedule = plan(
        Polling(selected=3, local_steps=5, starts_at_zero=True), two_speeds(9), horizon=70, seed=0
    )
    assert (schedule.steps[schedule.used_by == 0] == 0).all()


def test_a_client_starts_from_its_last_contact() -> None:
    schedule = plan(Polling(selected=4, local_steps=5), two_speeds(10), horizon=700, seed=0)
    last = np.full(10, -1)
    for used_by in range(schedule.updates):
        for job in np.flatnonzero(schedule.used_by == used_by):
            assert schedule.start_version[job] == last[schedule.client[job]]
            last[schedule.client[job]] = used_by
    unused = schedule.used_by == schedule.updates  # everyone has one more job in hand
    assert schedule.start_version[unused].tolist() == last[schedule.client[unused]].tolist()


def test_every_client_is_drawn_equally_often() -> None:
    schedule = plan(Polling(selected=5, local_steps=1), two_speeds(20), horizon=70_000, seed=0)
    counted = np.bincount(schedule.client[: schedule.jobs])
    assert counted == pytest.approx(2500, abs=5 * np.sqrt(2500 * 0.75))


def test_everyone_every_time() -> None:
    schedule = plan(Polling(selected=20, local_steps=1), two_speeds(20), horizon=70, seed=0)
    assert schedule.client[: schedule.jobs].tolist() == list(range(20)) * 10


def test_after_all_steps_nothing_is_under_way() -> None:
    """Three steps are done at time 3; the next job begins with a draw of its own, which lasts 8."""
    row = [1.0, 1.0, 1.0, 8.0, 1.0, 1.0, 2.0, 2.0, 2.0]
    assert steps_of(row, everyone()) == [3, 0, 3]
    assert steps_of(row, everyone(interruption="resume")) == [3, 0, 3]  # 1 left, then 2, 2
    assert steps_of(row, everyone(interruption="keep")) == [3, 0, 0]  # 8 again


def test_literal_counts_are_geometric_from_one_or_from_zero() -> None:
    fleet = two_speeds(20)
    counts = {}
    for count in ("literal", "literal-zero"):
        for most in (3, 10_000):
            policy = Polling(selected=5, local_steps=most, step_count=count)
            counts[count, most] = plan(policy, fleet, horizon=7_000, seed=0).steps
    drawn = counts["literal", 10_000]
    assert drawn.min() == 1
    assert counts["literal-zero", 10_000].tolist() == (drawn - 1).tolist()
    assert counts["literal", 3].tolist() == np.minimum(drawn, 3).tolist()
    assert counts["literal-zero", 3].tolist() == np.minimum(drawn - 1, 3).tolist()
