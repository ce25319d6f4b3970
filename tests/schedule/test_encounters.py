"""What clients meet: schedules computed by hand, and what holds whatever happens."""

from __future__ import annotations

from dataclasses import replace
from math import inf, pi, sqrt

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from favano.errors import BadInput
from favano.policies import Adaptive, Buffered, Policy, Polling, Rounds, Uniform, Windowed
from favano.policies.selection_rules import LeastRecent
from favano.schedule import Schedule, plan
from favano.schedule.virtual_clock import drive
from favano.timing import (
    ClientSpeeds,
    Conditions,
    Deterministic,
    Exponential,
    Fault,
    Geometric,
    HalfNormal,
    Links,
    StepLaw,
    WhenAway,
    parse_availability,
)
from favano.timing.availability import Recorded
from tests.examples import examples
from tests.schedule.test_concurrency import most_at_work

HORIZON = 100.0
SEND = Buffered(buffer=1, local_steps=4, hand_out="arrival", interaction_time=0.0)


def fleet(
    *rows: list[tuple[float, float]], mean: float = 1.0, horizon: float = HORIZON, **rest: object
) -> ClientSpeeds:
    """Clients with steps of equal length that are there in these intervals."""
    presence = Recorded([np.array(row, dtype=float).reshape(-1, 2) for row in rows]).presence(
        0, np.arange(len(rows)), horizon
    )
    conditions = Conditions(presence=presence, **rest)  # type: ignore[arg-type]
    return ClientSpeeds(np.full(len(rows), mean), Deterministic(), np.arange(len(rows)), conditions)


def always(clients: int, **rest: object) -> ClientSpeeds:
    conditions = Conditions(**rest)  # type: ignore[arg-type]
    return ClientSpeeds(np.ones(clients), Deterministic(), np.arange(clients), conditions)


Job = tuple[int, float, float, int, bool]


def jobs(schedule: Schedule) -> list[Job]:
    """Client, begin, finish, steps and use of each job, in the order in which they begin."""
    s = schedule
    used = (s.used_by < s.updates).tolist()
    columns = (s.client.tolist(), s.begin.tolist(), s.finish.tolist(), s.steps.tolist(), used)
    return sorted(zip(*columns, strict=True), key=lambda job: (job[1], job[0]))


def test_a_job_whose_client_goes_away_is_lost() -> None:
    schedule = plan(SEND, fleet([(0, 10), (20, 27)]), horizon=30, seed=0)
    assert jobs(schedule) == [
        (0, 0.0, 4.0, 4, True),
        (0, 4.0, 8.0, 4, True),
        (0, 8.0, 10.0, 2, False),
        (0, 20.0, 24.0, 4, True),
        (0, 24.0, 27.0, 3, False),
    ]
    assert schedule.wasted_steps.tolist() == [0, 0, 2]  # the last three after the last server step
    assert schedule.uploads is not None
    assert schedule.uploads.sum() == 3


def test_a_job_may_rest_until_its_client_is_back() -> None:
    schedule = plan(SEND, fleet([(0, 10), (20, 27)], when_away="paused"), horizon=30, seed=0)
    assert jobs(schedule)[2:4] == [(0, 8.0, 22.0, 4, True), (0, 22.0, 26.0, 4, True)]


def test_a_job_may_go_on_and_be_sent_later() -> None:
    schedule = plan(SEND, fleet([(0, 10), (20, 27)], when_away="later"), horizon=30, seed=0)
    assert jobs(schedule)[2:4] == [(0, 8.0, 20.0, 4, True), (0, 20.0, 24.0, 4, True)]


def test_messages_take_the_time_of_both_links() -> None:
    # 2 down, 4 steps, 3 up; the server's link takes the two updates one after the other.
    links = Links(np.full(2, 2.0), np.full(2, 3.0), server_down=0.0, server_up=1.0)
    schedule = plan(SEND, always(2, links=links), horizon=12, seed=0)
    assert sorted(jobs(schedule)[:2]) == [(0, 0.0, 10.0, 4, True), (1, 0.0, 11.0, 4, True)] or (
        sorted(jobs(schedule)[:2]) == [(0, 0.0, 11.0, 4, True), (1, 0.0, 10.0, 4, True)]
    )
    links = Links(np.full(2, 2.0), np.full(2, 3.0), server_down=1.0)
    schedule = plan(SEND, always(2, links=links), horizon=12, seed=0)
    assert [job[2] for job in jobs(schedule)[:2]] == [10.0, 11.0]  # sent one after the other


def test_a_poll_waits_for_the_updates_that_it_has_asked_for() -> None:
    links = Links(np.array([0.0, 0.0]), np.array([1.0, 9.0]))
    policy = Polling(selected=2, local_steps=50, waiting_time=5.0, interaction_time=0.0)
    schedule = plan(policy, always(2, links=links), horizon=20, seed=0)
    # Asked at 5, client 1 is here at 14. The tick at 10 does not wait any longer, the one at 15
    # asks client 0 alone, and both are used once it has answered.
    assert schedule.time.tolist() == [10.0, 11.0, 16.0]
    assert jobs(schedule)[:4] == [
        (0, 0.0, 6.0, 5, True),
        (1, 0.0, 14.0, 5, True),
        (0, 10.0, 11.0, 0, True),
        (0, 11.0, 16.0, 4, True),
    ]


def test_a_poll_asks_those_who_are_there() -> None:
    policy = Polling(selected=2, local_steps=50, waiting_time=5.0, interaction_time=0.0)
    rows = [(0.0, 7.0)], [(6.0, 100.0)], [(0.0, 100.0)]
    schedule = plan(policy, fleet(*rows), horizon=16, seed=0)
    assert jobs(schedule) == [
        (0, 0.0, 5.0, 5, True),
        (2, 0.0, 5.0, 5, True),
        (0, 5.0, 7.0, 2, False),
        (2, 5.0, 10.0, 5, True),
        (1, 6.0, 10.0, 4, True),
        (1, 10.0, 15.0, 5, True),
        (2, 10.0, 15.0, 5, True),
        (1, 15.0, inf, 1, False),
        (2, 15.0, inf, 1, False),
    ]
    assert schedule.start_version[np.lexsort((schedule.client, schedule.begin))].tolist() == [
        -1, -1, 0, 0, 0, 1, 1, 2, 2,
    ]  # fmt: skip
    assert schedule.wasted_steps.tolist() == [0, 2, 0]


FAULTS = (
    # Each: faults, and the jobs of two clients with four steps per job.
    ((Fault((0,), "crash", 6.0),), [(0, 4.0, 6.0, 2, False), (0, 6.0, 10.0, 4, True)]),
    ((Fault((0,), "leave", 6.0), Fault((0,), "start", 3.0)),
     [(0, 4.0, 6.0, 2, False), (0, 9.0, 13.0, 4, True)]),
    ((Fault((0,), "hang", 6.0), Fault((0,), "continue", 3.0)),
     [(0, 4.0, 11.0, 4, True), (0, 11.0, 15.0, 4, True)]),
    ((Fault((0,), "slow", 6.0, 0, 2.0),),
     [(0, 4.0, 8.0, 4, True), (0, 8.0, 16.0, 4, True)]),
    ((Fault((0,), "lose", 6.0),), [(0, 4.0, 8.0, 4, False), (0, 14.0, 18.0, 4, True)]),
    ((Fault((0,), "late", 6.0, 0, 1.5),), [(0, 4.0, 9.5, 4, True), (0, 9.5, 13.5, 4, True)]),
    ((Fault((0,), "duplicate", 6.0),), [(0, 4.0, 8.0, 4, True), (0, 8.0, 12.0, 4, True)]),
    ((Fault((0,), "poison", 6.0, 0, -1.0),), [(0, 4.0, 8.0, 4, True), (0, 8.0, 12.0, 4, True)]),
    ((Fault((0,), "crash", 0.0, 4),),  # after the fourth server step, two of each client
     [(0, 4.0, 8.0, 4, True), (0, 8.0, 12.0, 4, True)]),
)  # fmt: skip


@pytest.mark.parametrize(("faults", "expected"), FAULTS, ids=lambda part: str(part[0])[:40])
def test_faults_by_hand(faults: tuple[Fault, ...], expected: list[Job]) -> None:
    schedule = plan(SEND, always(2, faults=faults, timeout=10.0), horizon=20, seed=0)
    mine = [job for job in jobs(schedule) if job[0] == 0]
    assert mine[1:3] == expected
    kinds = [event.what for event in schedule.faults]
    assert [kind for kind in kinds if kind != "timeout"] == [fault.what for fault in faults]
    others = [job for job in jobs(schedule) if job[0] == 1 and job[1] < 20]
    assert others == [(1, 4.0 * k, 4.0 * k + 4, 4, True) for k in range(5)]


def test_what_messages_meet_is_counted() -> None:
    faults = Fault((0,), "duplicate", 6.0), Fault((0,), "poison", 0.0, 0, -3.0)
    schedule = plan(SEND, always(1, faults=faults), horizon=14, seed=0)
    assert schedule.uploads is not None
    assert schedule.scale is not None
    assert schedule.uploads[: schedule.jobs].tolist() == [1, 2, 1]
    assert schedule.scale[: schedule.jobs].tolist() == [1, -3, -3]
    assert [event[:3] for event in schedule.faults] == [(8.0, 0, "duplicate"), (8.0, 0, "poison")]
    assert [event.job for event in schedule.faults] == [1, 1]


def test_who_is_slow_or_away_has_fewer_steps_at_a_deadline() -> None:
    """Three of four steps by time 10, three units each; and two while there, of one each."""
    policy = Rounds(
        selected=1, local_steps=4, interaction_time=0.0, deadline=10.0, at_deadline="take"
    )
    slow = plan(policy, always(1, faults=(Fault((0,), "slow", 0.0, 0, 3.0),)), horizon=25, seed=0)
    assert [job[3] for job in jobs(slow)[1:3]] == [3, 3]
    away = plan(policy, fleet([(0, 2), (9, 30)], when_away="paused"), horizon=25, seed=0)
    assert jobs(away)[0] == (0, 0.0, 10.0, 3, True)


def test_late_joiners_and_leavers() -> None:
    faults = Fault((1,), "start", 6.0), Fault((0,), "leave", 4.0)
    schedule = plan(SEND, always(2, faults=faults), horizon=20, seed=0)
    assert next(job[:3] for job in jobs(schedule) if job[0] == 1) == (1, 6.0, 10.0)
    assert [job[:3] for job in jobs(schedule) if job[0] == 0][-1] == (0, 8.0, 10.0)


@pytest.mark.parametrize("check_ins", ["constant", "poisson"])
def test_check_ins_as_in_the_simulations_of_fedbuff(check_ins: str) -> None:
    """Rate 100, durations |N(0, 1)|, buffer 10: 79.8 jobs at work, a staleness of 7.98.

    FLSim's recorded runs: 80.2 and 7.92; 80.0 and 7.89.
    """
    policy = Buffered(
        buffer=10,
        local_steps=1,
        hand_out="check-in",
        check_in_rate=100.0,
        check_ins=check_ins,  # type: ignore[arg-type]
        interaction_time=0.0,
    )
    clients, horizon, warm = 500, 100.0, 5.0
    means = np.full(clients, sqrt(2 / pi))
    schedule = plan(
        policy, ClientSpeeds(means, HalfNormal(), np.arange(clients)), horizon=horizon, seed=3
    )
    begin, end = (np.clip(time, warm, horizon) for time in (schedule.begin, schedule.finish))
    assert float((end - begin).sum()) / (horizon - warm) == pytest.approx(79.8, rel=0.02)
    stale = schedule.staleness[schedule.time[schedule.used_by[: schedule.jobs]] > warm]
    assert float(stale.mean()) == pytest.approx(7.98, rel=0.02)


def test_the_recorded_phones() -> None:
    """Share of time available 0.162 in the mean, with what 21 phones did after the sixth day."""
    law = parse_availability("phones")
    assert law is not None
    share = law.presence(0, np.arange(300), 6 * 86_400.0).share(6 * 86_400.0)
    assert float(share.mean()) == pytest.approx(0.162, abs=1e-3)
    assert float(np.median(share)) == pytest.approx(0.129, abs=6e-4)


POLICIES: list[Policy] = [
    Polling(selected=3, local_steps=5),
    Rounds(selected=3, local_steps=5),
    Rounds(selected=4, local_steps=5, wait_for=2, deadline=30.0, at_deadline="take"),
    Buffered(buffer=2, local_steps=5),
    Buffered(buffer=2, local_steps=5, hand_out="arrival", latency="client"),
    Buffered(buffer=3, local_steps=5, hand_out="idle", concurrency=4),
    Buffered(buffer=3, local_steps=5, hand_out="uniform", concurrency=4),
    Buffered(buffer=2, local_steps=5, hand_out="check-in", check_in_rate=0.5, check_ins="poisson"),
    Windowed(local_steps=5),
    Adaptive(local_steps=5, most_steps=9),
]
SIX = 6
AWAY: tuple[WhenAway, ...] = ("lost", "paused", "later")
KINDS = ("leave", "start", "crash", "hang", "continue", "slow", "lose", "late", "duplicate")


def absent(name: str, seed: int, when_away: WhenAway, **rest: object) -> Conditions:
    """When six clients are there, by a law, and what else they meet."""
    law = parse_availability(name)
    presence = None if law is None else law.presence(seed, np.arange(SIX), 150.0)
    return Conditions(presence, when_away, **rest)  # type: ignore[arg-type]


@st.composite
def conditions(draw: st.DrawFn) -> Conditions:
    """Anything that six clients may meet."""
    laws = ["always", "daily:0.5:3:60", "two-state:30:15", "two-state:2:3"]
    law, seed = draw(st.sampled_from(laws)), draw(st.integers(0, 99))
    faults = draw(
        st.lists(
            st.builds(
                Fault,
                st.lists(st.integers(0, SIX - 1), min_size=1, max_size=3, unique=True).map(tuple),
                st.sampled_from((*KINDS, "poison")),
                st.floats(0, 40),
                st.integers(0, 20),
                st.sampled_from([0.5, 2.0, 3.0]),
            ),
            max_size=8,
        )
    )
    times = st.lists(st.sampled_from([0.0, 0.5, 4.0]), min_size=SIX, max_size=SIX)
    links = None
    if draw(st.booleans()):
        server = draw(st.sampled_from([0.0, 0.7]))
        links = Links(np.array(draw(times)), np.array(draw(times)), server, server)
    when_away, timeout = draw(st.sampled_from(AWAY)), draw(st.sampled_from([inf, 25.0]))
    return absent(law, seed, when_away, links=links, timeout=timeout, faults=tuple(faults))


def there(presence: object, client: int, time: float) -> bool:
    """Read off the intervals, by nothing but comparisons."""
    if presence is None:
        return True
    rows = slice(presence.first[client], presence.first[client + 1])  # type: ignore[attr-defined]
    both = zip(presence.begin[rows], presence.end[rows], strict=True)  # type: ignore[attr-defined]
    return any(begin - 1e-6 <= time <= end + 1e-6 for begin, end in both)


FOUR = Buffered(buffer=1, local_steps=5, concurrency=4)  # at work at most
UNIFORM = replace(FOUR, hand_out="uniform")
AT_ONCE = replace(UNIFORM, interaction_time=0.0)
FLUSH = replace(FOUR, buffer=2, interaction_time=0.0)
CHECK_IN = replace(FOUR, hand_out="check-in", check_in_rate=2.0)
SLOW_SERVER = Links(np.zeros(SIX), np.zeros(SIX), server_down=0.0, server_up=4.0)
CRASH = (Fault((3,), "crash", 18.0),)


@examples(60)
@given(
    conditions(),
    st.sampled_from(POLICIES),
    st.lists(st.sampled_from([1.0, 2.0, 9.0]), min_size=SIX, max_size=SIX),
    st.integers(0, 99),
)
# Begun at infinity; and in the future, so that a crash was before its begin.
@example(absent("two-state:30:15", 1, "paused", links=SLOW_SERVER), UNIFORM, [1.0] * SIX, 0)
@example(
    absent("two-state:30:15", 1, "paused", links=SLOW_SERVER, faults=CRASH),
    AT_ONCE,
    [1.0] * SIX,
    8,
)
# Dispatched while away: it was given up in the server's pause, and went away.
@example(
    absent("two-state:2:3", 2, "paused", timeout=25.0), replace(UNIFORM, buffer=2), [2.0] * SIX, 2
)
# Too many at work: left in the server's pause, in the buffer, in a queue, on the server's link.
@example(absent("two-state:30:15", 0, "lost"), replace(FOUR, hand_out="idle"), [2.0] * SIX, 3)
@example(absent("two-state:30:15", 3, "lost"), FLUSH, [2.0] * SIX, 0)
@example(absent("daily:0.5:3:60", 0, "later"), AT_ONCE, [1.0] * SIX, 1)
@example(absent("two-state:30:15", 3, "lost", links=SLOW_SERVER), CHECK_IN, [1.0] * SIX, 1)
def test_whatever_clients_meet(
    met: Conditions, policy: Policy, means: list[float], seed: int
) -> None:
    """No contact while away, no message before it was sent, and every fault accounted for."""
    speeds = ClientSpeeds(np.array(means), Geometric(), np.arange(SIX), met)
    schedule = plan(policy, speeds, horizon=150.0, seed=seed)
    s, count = schedule, len(schedule.client)
    used = s.used_by < s.updates
    late = {client for fault in met.faults if fault.what == "late" for client in fault.clients}
    for job in range(count):
        client = int(s.client[job])
        if s.begin[job] <= 150.0:  # later ones are of a server that is busy past the horizon
            assert there(met.presence, client, s.begin[job]), "dispatched while away"
        delayed = client in late or (met.links is not None and met.links.server_up > 0)
        if used[job] and s.finish[job] <= 150.0:
            here = delayed or there(met.presence, client, s.finish[job])
            assert here, "an update came from nowhere"
            least = 0.0 if met.links is None else met.links.down[client] + met.links.up[client]
            polled = isinstance(policy, Polling)  # an update may be asked for while it downloads
            least = least if not polled else 0.0 if met.links is None else met.links.up[client]
            assert s.finish[job] - s.begin[job] >= least - 1e-6, "it came before it was sent"
            assert s.used_by[job] > s.start_version[job]
    if isinstance(policy, Buffered):
        assert most_at_work(schedule) <= (policy.concurrency or SIX), "too many at work"
    if s.uploads is None:  # nothing has happened at all
        assert met.always_there
        return
    assert (s.uploads[used] >= 1).all()
    assert (s.uploads <= 2).all()
    twice = {event.job for event in s.faults if event.what == "duplicate"}
    assert set(np.flatnonzero(s.uploads == 2).tolist()) <= twice
    # Each fault that was due has left one event for each of its clients; they come in their order.
    scripted = [event for event in s.faults if event.what != "timeout"]
    due = [fault.what for fault in met.faults for _ in fault.clients]
    assert sorted(event.what for event in scripted) == sorted(due[: len(scripted)])
    clients = [client for fault in met.faults for client in fault.clients]
    assert sorted(e.client for e in scripted) == sorted(clients[: len(scripted)])
    lost = {event.job for event in scripted if event.what == "lose"}
    assert not lost & set(np.flatnonzero(used).tolist()), "a lost message was used"
    assert s.wasted_steps.sum() <= s.steps[~used].sum()


@examples(30)
@given(st.data())
def test_the_planner_of_polls_is_the_virtual_clock(data: st.DataObject) -> None:
    clients = data.draw(st.integers(1, 12))
    streams = np.array(data.draw(st.permutations(range(clients))))
    name = data.draw(
        st.sampled_from(["daily:0.5:3:50", "two-state:20:10", "two-state:3:5", "daily:0.7:2:33.3"])
    )
    mode: WhenAway = data.draw(st.sampled_from(["lost", "paused", "later"]))
    law, horizon = parse_availability(name), data.draw(st.sampled_from([35.0, 91.3, 140.0]))
    assert law is not None
    presence = law.presence(data.draw(st.integers(0, 99)), streams, horizon)
    laws: list[StepLaw] = [Geometric(), Exponential(), Deterministic()]
    steps = data.draw(st.sampled_from(laws))
    means = np.array([(1.0, 2.0, 9.0)[client % 3] for client in range(clients)])
    met = Conditions(presence=presence, when_away=mode)
    selected = data.draw(st.integers(1, clients))
    rules = [Uniform(), LeastRecent()] if selected < clients else [Uniform()]
    policy = Polling(
        selected=selected,
        local_steps=data.draw(st.integers(1, 8)),
        waiting_time=data.draw(st.sampled_from([4.0, 0.3])),
        selection=data.draw(st.sampled_from(rules)),
        asked="now",
    )
    speeds = ClientSpeeds(means, steps, streams, met)
    planned, driven = (
        plan(policy, speeds, horizon=horizon, seed=5),
        drive(policy, speeds, horizon, 5),
    )
    assert len(planned.client) == len(driven.client)
    for name in ("time", "wasted_steps"):
        assert getattr(planned, name) == pytest.approx(getattr(driven, name))
    rows = [np.lexsort((s.finish, s.begin, s.client, s.used_by)) for s in (planned, driven)]
    for name in (
        "client", "steps", "start_version", "used_by", "first_step", "begin", "finish", "uploads",
    ):  # fmt: skip
        one, two = (getattr(s, name)[row] for s, row in zip((planned, driven), rows, strict=True))
        assert one == pytest.approx(two), name


@given(st.integers(0, 99), st.integers(1, 7))
def test_who_is_always_there_may_be_asked_now_or_ahead(seed: int, selected: int) -> None:
    speeds = ClientSpeeds(
        np.array([1.0, 2.0, 2.0, 5.0, 9.0, 16.0, 16.0]), Geometric(), np.arange(7)
    )
    policy = Polling(selected=selected, local_steps=4)
    ahead = plan(policy, speeds, horizon=60.0, seed=seed)
    now = drive(replace(policy, asked="now"), speeds, 60.0, seed)
    for name in ("client", "steps", "start_version", "used_by", "first_step", "begin", "finish"):
        used = slice(0, ahead.jobs)
        assert np.array_equal(getattr(ahead, name)[used], getattr(now, name)[used]), name


def test_readings_of_a_fleet_that_is_always_there_are_refused() -> None:
    away = fleet([(0, 10)], [(0, 20)])
    for policy, name in (
        (Polling(selected=1, strict_ties=True), "strict_ties"),
        (Polling(selected=1, interruption="keep"), "interruption"),
        (Rounds(selected=1, round_time="mean"), "round_time"),
    ):
        with pytest.raises(BadInput, match=f"{name}=.*always there"):
            plan(policy, away, horizon=50.0, seed=0)
