"""Arrival-driven servers from scripted durations, with client updates worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from favano.policies import Buffered
from favano.schedule import Schedule, plan
from favano.timing import Deterministic, Trace, client_speeds, traced_fleet, two_speeds
from tests.schedule.test_concurrency import most_at_work

# one step a job: client 0 takes 2, client 1 takes 5, client 2 takes 9
FLEET = traced_fleet(Trace((np.array([2.0]), np.array([5.0]), np.array([9.0]))))


def jobs(schedule: Schedule) -> list[tuple[int, int, int, float]]:
    """(update, client, base, begin) of everything used."""
    used = slice(0, schedule.jobs)
    return list(
        zip(
            schedule.used_by[used].tolist(),
            schedule.client[used].tolist(),
            schedule.start_version[used].tolist(),
            schedule.begin[used].tolist(),
            strict=True,
        )
    )


def test_contributors_wait_for_the_flush() -> None:
    policy = Buffered(buffer=2, local_steps=1, hand_out="flush", interaction_time=3)
    schedule = plan(policy, FLEET, horizon=20, seed=0)
    # arrivals 2 (c0), 5 (c1): flush at 5 + 3 = 8, both restart there; 9 (c2), 10 (c0): flush 13;
    # 13 + 2 = 15 (c0) and 8 + 5 = 13 (c1), handled at 13: flush at 15 + 3 = 18
    assert schedule.time.tolist() == [8.0, 13.0, 18.0]
    assert jobs(schedule) == [
        (0, 0, -1, 0.0),
        (0, 1, -1, 0.0),
        (1, 2, -1, 0.0),
        (1, 0, 0, 8.0),
        (2, 1, 0, 8.0),
        (2, 0, 1, 13.0),
    ]


def test_contributors_go_on_with_the_model_before_the_flush() -> None:
    policy = Buffered(buffer=2, local_steps=1, hand_out="arrival", interaction_time=3)
    schedule = plan(policy, FLEET, horizon=9.5, seed=0)
    # 2 (c0) restarts at 2; 4 (c0) fills the buffer: flush at 7, its next job began at 4 from -1;
    # c1 (5) and c0 (6) come in while the server talks and are handled at 7: flush at 10
    assert schedule.time.tolist() == [7.0, 10.0]
    assert jobs(schedule) == [(0, 0, -1, 0.0), (0, 0, -1, 2.0), (1, 1, -1, 0.0), (1, 0, -1, 4.0)]


def test_latency_of_clients_and_none() -> None:
    for latency, times in (("client", [5.0, 8.0, 10.0]), ("none", [2.0, 4.0, 5.0])):
        policy = Buffered(buffer=1, local_steps=1, hand_out="flush", latency=latency)  # type: ignore[arg-type]
        schedule = plan(policy, FLEET, horizon=12, seed=0)
        assert schedule.time[:3].tolist() == times


def test_a_serial_server_makes_arrivals_queue() -> None:
    policy = Buffered(buffer=1, local_steps=1, hand_out="flush", latency="server")
    schedule = plan(policy, two_speeds(100), horizon=5000, seed=0)
    assert schedule.updates == pytest.approx(5000 / 3, abs=2)
    shares = np.bincount(schedule.client, minlength=100)
    assert shares.max() <= 2 * shares.min() + 2  # the queue serves everyone alike


def test_a_client_that_waits_for_a_busy_server_cannot_begin_with_a_model_of_later() -> None:
    """Found by the property test: handed out at random while the client's arrival still queued."""
    policy = Buffered(buffer=1, local_steps=1, hand_out="uniform", concurrency=3, latency="server")
    for seed in range(300, 360):
        schedule = plan(policy, client_speeds(np.ones(9)), horizon=40, seed=seed)
        known = schedule.start_version >= 0
        assert (schedule.begin[known] >= schedule.time[schedule.start_version[known]]).all()


def test_idle_clients_replace_those_that_answer() -> None:
    policy = Buffered(buffer=3, local_steps=2, hand_out="idle", concurrency=4)
    schedule = plan(policy, two_speeds(10), horizon=400, seed=1)
    assert len(schedule.client) - schedule.jobs >= 4  # four at work at the end
    assert most_at_work(schedule) == 4


def test_a_distinct_buffer_holds_a_client_once() -> None:
    plain = Buffered(buffer=5, local_steps=1, hand_out="idle", concurrency=3)
    schedule = plan(plain, two_speeds(8), horizon=2000, seed=0)
    sets = schedule.client[: schedule.jobs].reshape(-1, 5).tolist()
    assert any(len(set(row)) < 5 for row in sets)
    distinct = Buffered(buffer=5, local_steps=1, hand_out="idle", concurrency=3, distinct=True)
    schedule = plan(distinct, two_speeds(8), horizon=2000, seed=0)
    sets = schedule.client[: schedule.jobs].reshape(-1, 5).tolist()
    assert all(len(set(row)) == 5 for row in sets)


def test_old_updates_are_thrown_away() -> None:
    policy = Buffered(buffer=1, local_steps=1, hand_out="flush", latency="none", max_staleness=3)
    schedule = plan(policy, FLEET, horizon=40, seed=0)
    assert schedule.staleness.max() <= 3
    assert schedule.wasted_steps.sum() > 0
    assert 2 not in schedule.client[: schedule.jobs]  # 9 units are 4 updates of client 0


def test_the_last_partial_buffer() -> None:
    policy = Buffered(buffer=2, local_steps=1, hand_out="flush", interaction_time=3)
    assert plan(policy, FLEET, horizon=9.5, seed=0).time.tolist() == [8.0]
    flushing = Buffered(
        buffer=2, local_steps=1, hand_out="flush", interaction_time=3, flush_at_end=True
    )
    schedule = plan(flushing, FLEET, horizon=9.5, seed=0)
    assert schedule.time.tolist() == [8.0, 9.5]
    assert schedule.client[schedule.used_by == 1].tolist() == [2]


@pytest.mark.quick("arrival-0.1*")
@pytest.mark.parametrize(
    ("hand_out", "fast", "expected"),
    [
        ("arrival", 2 / 3, 5.73),
        ("flush", 2 / 3, 6.43),
        ("arrival", 1 / 9, 18.2),
        ("flush", 1 / 9, 21.1),
    ],
)
def test_mean_steps_of_the_buffered_modes(hand_out: str, fast: float, expected: float) -> None:
    policy = Buffered(buffer=10, local_steps=20, hand_out=hand_out)  # type: ignore[arg-type]
    schedule = plan(policy, two_speeds(100, fast_fraction=fast), horizon=30_000, seed=0)
    assert np.diff(schedule.time).mean() == pytest.approx(expected, rel=0.02)


def test_an_update_as_old_as_allowed_is_used() -> None:
    """Client 1 arrives at 5, after the updates at 2 and 4: its staleness is 2."""
    for most, used in ((1, [0, 0]), (2, [0, 0, 1])):
        policy = Buffered(
            buffer=1, local_steps=1, hand_out="flush", latency="none", max_staleness=most
        )
        schedule = plan(policy, FLEET, horizon=5.5, seed=0)
        assert schedule.client[: schedule.jobs].tolist() == used
        assert (schedule.client[schedule.used_by == schedule.updates] == 1).sum() == 3 - len(
            used
        ) + 1


def test_simultaneous_arrivals_come_in_a_drawn_order() -> None:
    """Of six equal clients, who all finish together, any can be first."""
    fleet = client_speeds(np.full(6, 2.0), Deterministic())
    policy = Buffered(buffer=6, local_steps=1, hand_out="flush", latency="none")
    schedule = plan(policy, fleet, horizon=6001, seed=0)
    order = schedule.client[: schedule.jobs].reshape(-1, 6)
    assert len(order) == 3000
    for place in range(6):
        came = np.bincount(order[:, place], minlength=6)
        assert came == pytest.approx(500, abs=5 * np.sqrt(3000 * 5 / 36))


def test_any_idle_client_may_be_next_whoever_was_before() -> None:
    """One at work at a time: each of the 25 pairs of neighbours is as likely."""
    policy = Buffered(buffer=1, local_steps=1, hand_out="idle", concurrency=1, latency="none")
    fleet = client_speeds(np.full(5, 1.0), Deterministic())
    client = plan(policy, fleet, horizon=5000, seed=0).client
    pairs = np.bincount(5 * client[:-1] + client[1:], minlength=25)
    assert pairs.sum() == 5000
    assert pairs == pytest.approx(200, abs=5 * np.sqrt(5000 * 24 / 625))


def test_what_is_thrown_away_was_work_and_its_client_goes_on() -> None:
    """Also where clients of a distinct buffer wait for the flush: nobody is lost for good."""
    policy = Buffered(
        buffer=2, local_steps=3, hand_out="idle", concurrency=4, distinct=True, max_staleness=0
    )
    schedule = plan(policy, two_speeds(6), horizon=3000, seed=0)
    unused = schedule.used_by == schedule.updates
    thrown_away = int((unused & np.isfinite(schedule.finish)).sum())
    in_buffer = thrown_away - int(schedule.wasted_steps.sum()) // 3
    assert thrown_away > 100
    assert 0 <= in_buffer < 3  # handed in or thrown away since the last flush
    at_work = unused & np.isinf(schedule.finish)
    assert at_work.sum() == 4
    assert set(schedule.client[schedule.begin > 2000].tolist()) == set(range(6))
