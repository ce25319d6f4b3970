"""Schedules of all policies: properties that must hold for any fleet, and renumbering."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from favano.errors import BadInput
from favano.policies import Buffered, HandOut, Policy, Polling, Rounds, Windowed
from favano.schedule import Schedule, expected_jobs, plan, save_schedule
from favano.schedule.schedule import COLUMNS
from favano.timing import (
    ClientSpeeds,
    Deterministic,
    Exponential,
    Geometric,
    LogNormal,
    StepLaw,
    client_speeds,
    two_speeds,
)
from favano.timing.conditions import Conditions, Links
from tests.examples import examples

LAWS: list[StepLaw] = [Geometric(), Exponential(), Deterministic(), LogNormal(0.7)]


@st.composite
def fleets(draw: st.DrawFn) -> ClientSpeeds:
    clients = draw(st.integers(1, 25))
    means = draw(st.lists(st.floats(1, 30), min_size=clients, max_size=clients))
    return client_speeds(np.array(means), draw(st.sampled_from(LAWS)))


@st.composite
def policies(draw: st.DrawFn, clients: int) -> Policy:
    kind = draw(st.sampled_from(["poll", "barrier", "arrival", "window"]))
    each = st.lists(st.integers(1, 8), min_size=clients, max_size=clients).map(tuple)
    steps = draw(st.integers(1, 8) | each)
    selected = draw(st.integers(1, clients))
    if kind == "poll":
        return Polling(
            selected=selected,
            local_steps=steps,
            interruption=draw(st.sampled_from(["redraw", "resume", "keep"])),
            starts_at_zero=draw(st.booleans()),
            idle_in_interaction=draw(st.booleans()),
            strict_ties=draw(st.booleans()),
            overrun=draw(st.booleans()),
            step_count=draw(st.sampled_from(["durations", "literal", "literal-zero"])),
        )
    if kind == "barrier":
        return Rounds(
            selected=selected,
            local_steps=steps,
            wait_for=draw(st.none() | st.integers(1, selected)),
            deadline=draw(st.none() | st.floats(1, 200)),
            at_deadline=draw(st.sampled_from(["drop", "take"])),
            round_time=draw(st.sampled_from(["sum", "one-draw", "mean"])),
            drop_last=draw(st.booleans()),
        )
    if kind == "window":
        return Windowed(period=draw(st.floats(1, 40)), local_steps=steps)
    hand_out: HandOut = draw(st.sampled_from(["flush", "arrival", "idle", "uniform"]))
    concurrency = draw(st.integers(1, clients))
    return Buffered(
        buffer=draw(st.integers(1, concurrency)),
        local_steps=steps,
        hand_out=hand_out,
        concurrency=concurrency,
        latency=draw(st.sampled_from(["client", "server", "none"])),
        distinct=draw(st.booleans()),
        max_staleness=draw(st.none() | st.integers(0, 5)),
        flush_at_end=draw(st.booleans()),
    )


@given(data=st.data(), fleet=fleets(), seed=st.integers(0, 1000))
def test_any_schedule_could_have_happened(
    data: st.DataObject, fleet: ClientSpeeds, seed: int
) -> None:
    """Written out independently of `check_schedule`, which the constructor has run already."""
    policy = data.draw(policies(fleet.clients))
    schedule = plan(policy, fleet, horizon=data.draw(st.floats(5, 300)), seed=seed)
    for job in range(len(schedule.client)):
        base, used_by = schedule.start_version[job], schedule.used_by[job]
        assert -1 <= base < used_by <= schedule.updates
        assert 0 <= schedule.steps[job] <= policy.steps_of(int(schedule.client[job]))
        if base >= 0:  # no job starts before its base exists
            assert schedule.begin[job] >= schedule.time[base]
        if used_by < schedule.updates:
            assert schedule.begin[job] <= schedule.finish[job] <= schedule.time[used_by]
    for client in range(fleet.clients):  # no client in two jobs at once
        mine = np.flatnonzero(schedule.client == client)
        mine = mine[np.lexsort((schedule.first_step[mine], schedule.begin[mine]))]
        assert (schedule.finish[mine[:-1]] <= schedule.begin[mine[1:]]).all()
        made = schedule.first_step[mine[:-1]] + schedule.steps[mine[:-1]]
        assert (schedule.first_step[mine[1:]] >= made).all()  # batches are never used twice
    if isinstance(policy, Polling) or (isinstance(policy, Rounds) and policy.deadline is None):
        size = policy.selected
        if isinstance(policy, Rounds) and policy.wait_for is not None:
            size = policy.wait_for
        sets = schedule.client[: schedule.jobs].reshape(schedule.updates, size)
        assert all(len(set(row)) == size for row in sets.tolist())
    if isinstance(policy, Buffered) and not policy.flush_at_end:
        assert (np.bincount(schedule.used_by[: schedule.jobs]) == policy.buffer).all()


@given(data=st.data(), fleet=fleets(), seed=st.integers(0, 1000))
@examples(50)
def test_p16_renumbering_clients_renumbers_the_schedule(
    data: st.DataObject, fleet: ClientSpeeds, seed: int
) -> None:
    policy = data.draw(policies(fleet.clients))
    order = np.array(data.draw(st.permutations(range(fleet.clients))), dtype=np.int64)
    renumbered = ClientSpeeds(fleet.mean[order], fleet.law, fleet.streams[order])
    plain = plan(policy, fleet, horizon=150, seed=seed)
    other = plan(policy, renumbered, horizon=150, seed=seed)
    assert other.time.tolist() == plain.time.tolist()
    assert order[other.client].tolist() == plain.client.tolist()
    for name in ("steps", "start_version", "used_by", "first_step", "begin", "finish"):
        assert getattr(other, name).tolist() == getattr(plain, name).tolist()


def test_a_plan_does_not_depend_on_what_was_planned_before() -> None:
    policy = Polling(selected=5, local_steps=4)
    first = plan(policy, two_speeds(20), horizon=200, seed=1)
    plan(policy, two_speeds(20), horizon=500, seed=2)
    longer = plan(policy, two_speeds(20), horizon=400, seed=1)
    again = plan(policy, two_speeds(20), horizon=200, seed=1)
    assert again.steps.tolist() == first.steps.tolist()
    jobs = first.jobs  # a longer horizon goes on where the shorter one ended
    assert longer.steps[:jobs].tolist() == first.steps[:jobs].tolist()


def test_changing_s_does_not_change_a_clients_draws() -> None:
    """Two algorithms under one seed see the same fleet and the same step times."""
    fleet = two_speeds(20, seed=3)
    for number in range(3):
        everyone = np.arange(20)
        a = fleet.durations(3, everyone, np.full(20, number))
        assert (
            a.tolist()
            == two_speeds(20, seed=3).durations(3, everyone, np.full(20, number)).tolist()
        )


def test_every_array_is_saved(tmp_path: Path) -> None:
    schedule = plan(Polling(selected=5, local_steps=4), two_speeds(20), horizon=100, seed=0)
    save_schedule(schedule, tmp_path / "schedule.npz")
    with np.load(tmp_path / "schedule.npz", allow_pickle=False) as archive:
        assert set(archive) == set(COLUMNS)
        for name in COLUMNS:
            assert np.array_equal(archive[name], getattr(schedule, name))


def test_impossible_schedules_are_refused() -> None:
    good = plan(Polling(selected=2, local_steps=4), two_speeds(5), horizon=50, seed=0)
    arrays = dict(vars(good))
    for name, wrong, rule in (
        ("steps", good.steps + 5, r"steps: must be 0..4"),
        ("start_version", good.used_by, "a job must start before the update that uses it"),
        ("client", good.client + 4, r"client: must be 0..4"),
        ("begin", good.begin - 1, "a job's start version must exist"),
        ("time", good.time[::-1], "updates must be in order of time"),
        ("client", good.client * 0, "a client has two jobs at once"),
    ):
        with pytest.raises(BadInput, match=rule):
            Schedule(**{**arrays, name: wrong})


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (Polling(selected=11, local_steps=1), r"selected=11: need 1..clients \(10\)"),
        (Rounds(selected=11, local_steps=1), r"selected=11: need 1..clients \(10\)"),
        (
            Buffered(buffer=1, local_steps=1, hand_out="idle", concurrency=11),
            r"concurrency=11: need 1..clients \(10\)",
        ),
        (
            Buffered(buffer=5, local_steps=1, hand_out="flush", concurrency=4),
            r"buffer=5: need 1..4, the clients at work, or the buffer never fills",
        ),
    ],
)
def test_policies_that_do_not_fit_the_fleet_are_refused(policy: Policy, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        plan(policy, two_speeds(10), horizon=10, seed=0)


def test_horizon_must_be_positive() -> None:
    with pytest.raises(BadInput, match="horizon=0: need a positive time"):
        plan(Polling(selected=1, local_steps=1), two_speeds(2), horizon=0, seed=0)


def test_a_plan_of_many_clients_needs_little_memory() -> None:
    """As much as its arrays: 50,000 clients, of whom 20 are at work, took 7 GB."""
    code = (
        "from favano.policies import Buffered; "
        "from favano.schedule import plan; "
        "from favano.timing import two_speeds; "
        "policy = Buffered(buffer=10, local_steps=20, hand_out='idle', concurrency=20); "
        "plan(policy, two_speeds(50_000), horizon=5000, seed=0); "
        "print(open('/proc/self/status').read().partition('VmHWM:')[2].split()[0])"
    )  # not getrusage, which begins with the memory of the process that started this one
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 500_000  # kilobytes


@pytest.mark.parametrize(
    "policy",
    [
        Polling(selected=5, local_steps=4),
        Rounds(selected=5, local_steps=4),
        Rounds(selected=5, local_steps=4, deadline=10.0),
        Windowed(period=9.0, local_steps=4),
        Buffered(buffer=3, local_steps=4, hand_out="idle", concurrency=6),
        Buffered(buffer=1, local_steps=4, hand_out="flush"),
    ],
)
def test_the_cost_of_a_plan_is_known_before(policy: Policy) -> None:
    fleet = two_speeds(12)
    made = len(plan(policy, fleet, horizon=3000, seed=0).client)
    assert 0.4 * made < expected_jobs(policy, fleet, 3000) < 2.5 * made


@pytest.mark.parametrize(
    "policy",
    [
        Rounds(selected=5, local_steps=4),
        Windowed(period=9.0, local_steps=4),
        Buffered(buffer=3, local_steps=4, hand_out="idle", concurrency=6),
        Buffered(buffer=1, local_steps=4, hand_out="flush"),
    ],
)
def test_slow_messages_make_a_plan_cheaper(policy: Policy) -> None:
    links = Links(down=np.full(12, 50.0), up=np.full(12, 100.0))
    fleet = replace(two_speeds(12), conditions=Conditions(links=links))
    made = len(plan(policy, fleet, horizon=9000, seed=0).client)
    assert 0.4 * made < expected_jobs(policy, fleet, 9000) < 2.5 * made
