"""Schedules that grow: by hand, against the fixed policy they reduce to, and valid at the end."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from favano.errors import BadInput
from favano.policies import Action, Adaptive, Buffered, Dispatch, Latency, ReceivedUpdate
from favano.schedule import Schedule, VirtualClock, check_schedule, plan
from favano.timing import (
    ClientSpeeds,
    Deterministic,
    Exponential,
    Geometric,
    Trace,
    client_speeds,
    traced_fleet,
    two_speeds,
)

FAR = 100.0  # the target, so that any next length can be said


def say(clock: VirtualClock, steps: int) -> None:
    """Let the next update arrive, with a distance after which its client makes so many steps."""
    assert clock.awaited is not None
    made = int(clock.timeline.known.steps[clock.awaited])
    clock.learn([1.0, FAR - (steps - made)])


def test_three_updates_by_hand() -> None:
    """Client 0 takes 2 a step, client 1 takes 5; latency 3. Jobs of 2 steps, then as told."""
    fleet = traced_fleet(Trace((np.array([2.0]), np.array([5.0]))))
    policy = Adaptive(local_steps=2, most_steps=9, target=FAR)
    clock = VirtualClock(policy, fleet, 25.0, 0)
    growing = clock.timeline
    first = growing.schedule
    assert (first.updates, first.jobs, len(first.client)) == (0, 0, 2)
    assert growing.due[clock.awaited] == 7.0  # 3 + 2 * 2
    say(clock, 1)  # client 0: 7 + 3 + 2 = 12, before client 1 at 13
    assert growing.schedule.time.tolist() == [7.0]
    say(clock, 4)  # client 0: 12 + 3 + 8 = 23
    assert growing.schedule.time.tolist() == [7.0, 12.0]
    say(clock, 3)  # client 1: 13 + 3 + 15 = 31, past the horizon
    say(clock, 1)  # client 0: 23 + 3 + 2 = 28, too
    assert growing.ended
    whole = growing.schedule
    check_schedule(whole)
    assert whole.time.tolist() == [7.0, 12.0, 13.0, 23.0]
    used = slice(0, whole.jobs)
    assert whole.client[used].tolist() == [0, 0, 1, 0]
    assert whole.steps[used].tolist() == [2, 1, 2, 4]
    assert whole.start_version[used].tolist() == [-1, 0, -1, 1]
    assert whole.first_step[used].tolist() == [0, 2, 0, 3]
    assert whole.begin[used].tolist() == [0.0, 7.0, 0.0, 12.0]
    assert sorted(whole.client[whole.jobs :].tolist()) == [0, 1]
    assert sorted(whole.start_version[whole.jobs :].tolist()) == [2, 3]
    assert sorted(whole.steps[whole.jobs :].tolist()) == [1, 3]


def unchanged(policy: Adaptive, fleet: ClientSpeeds, horizon: float) -> Schedule:
    """What comes out if every job is as long as the first."""
    clock = VirtualClock(policy, fleet, horizon, 3)
    while clock.awaited is not None:
        clock.learn([0.0, 1.0])
    return clock.timeline.schedule


@pytest.mark.parametrize("latency", ["client", "server", "none"])
def test_with_jobs_of_one_length_it_is_the_fixed_policy(latency: Latency) -> None:
    for law in (Geometric(), Exponential(), Deterministic()):
        fleet = two_speeds(12, law=law, seed=3)
        policy = Adaptive(local_steps=4, most_steps=4, latency=latency)
        grown = unchanged(policy, fleet, 300.0)
        fixed = Buffered(buffer=1, local_steps=4, hand_out="flush", latency=latency)
        expected = plan(fixed, fleet, horizon=300, seed=3)
        assert plan(policy, fleet, horizon=300, seed=3).time.tolist() == expected.time.tolist()
        assert grown.updates == expected.updates > 30
        for name in (
            "time",
            "client",
            "steps",
            "start_version",
            "used_by",
            "first_step",
            "begin",
            "finish",
        ):
            actual, wanted = getattr(grown, name), getattr(expected, name)
            used = expected.updates if name == "time" else expected.jobs
            assert actual[:used].tolist() == wanted[:used].tolist()
            assert sorted(actual[used:].tolist()) == sorted(wanted[used:].tolist())


@given(
    means=st.lists(st.floats(1, 20), min_size=1, max_size=9),
    lengths=st.lists(st.integers(1, 7), min_size=1, max_size=30),
    latency=st.sampled_from(["client", "server", "none"]),
    seed=st.integers(0, 99),
)
def test_whatever_is_said_the_schedule_could_have_happened(
    means: list[float], lengths: list[int], latency: Latency, seed: int
) -> None:
    """And what is known at any moment stays true."""
    fleet = client_speeds(np.array(means))
    policy = Adaptive(local_steps=2, most_steps=7, latency=latency, target=FAR)
    clock = VirtualClock(policy, fleet, 60.0, seed)
    growing = clock.timeline
    numbered: list[int] = []
    while (awaited := clock.awaited) is not None:
        known = growing.schedule
        check_schedule(known)
        version = known.updates
        before = {
            name: getattr(known, name)[: known.updates].copy()
            for name in ("client", "start_version")
        }
        client, base = (getattr(growing.known, name)[awaited] for name in before)
        say(clock, lengths[version % len(lengths)])
        jobs, used, begun = growing.known, growing.jobs(version), growing.begun(version)
        assert used.tolist() == [awaited]
        assert jobs.client[begun].tolist() == [client]
        assert jobs.start_version[used].tolist() == [base]
        assert jobs.start_version[begun].tolist() == [version]
        assert jobs.client[: len(numbered)].tolist() == numbered
        numbered, after = jobs.client.tolist(), growing.schedule
        for name, values in before.items():
            assert getattr(after, name)[: len(values)].tolist() == values.tolist()
    check_schedule(growing.schedule)
    assert isinstance(growing.schedule, Schedule)


def test_p16_renumbering_clients_renumbers_the_schedule() -> None:
    fleet = two_speeds(10, seed=5)
    order = np.random.default_rng(0).permutation(10)
    other = ClientSpeeds(fleet.mean[order], fleet.law, fleet.streams[order])
    policy = Adaptive(local_steps=3, most_steps=3)
    plain, moved = unchanged(policy, fleet, 200.0), unchanged(policy, other, 200.0)
    assert moved.time.tolist() == plain.time.tolist()
    assert order[moved.client].tolist() == plain.client.tolist()


@pytest.mark.parametrize(
    ("made", "gamma", "expected"),
    [
        (5, 0.0, 8),
        (5, 2.0, 6),  # target - 1 / gain: the last that grows
        (5, 2.5, 5),
        (5, 3.5, 4),  # floor(-0.5)
        (5, 90.0, 1),  # never below 1
        (49, 0.0, 50),  # never above K_max
        (7, np.nan, 7),
        (7, np.inf, 7),
    ],
)
def test_jobs_grow_and_shrink_within_their_limits(made: int, gamma: float, expected: int) -> None:
    machine = Adaptive(local_steps=5, most_steps=50).started(0)
    machine.join(3, 0.0)
    assert machine.act(0.0) == Action(dispatch=[Dispatch(3, steps=5)])
    update = ReceivedUpdate(
        3, 0, -1, made, values=(("delta_norm", 2.0), ("server_distance", 2 * gamma))
    )
    machine.receive(update, 1.0)
    assert machine.act(1.0) == Action([update], [Dispatch(3, steps=expected)])


def test_wrong_numbers_are_refused() -> None:
    with pytest.raises(BadInput, match=r"most_local_steps=3: need at least local_steps \(4\)"):
        Adaptive(local_steps=4, most_steps=3)
