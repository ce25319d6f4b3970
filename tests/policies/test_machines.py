"""The two readers of a policy, in virtual and in real time, make the same schedule."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection
from math import inf

import numpy as np
import pytest

from favano.policies import (
    Action,
    Buffered,
    Dispatch,
    Policy,
    Polling,
    ReceivedUpdate,
    Rounds,
    Windowed,
)
from favano.schedule import Schedule, Timeline, plan
from favano.schedule.draws import step_ends
from favano.timing import ClientSpeeds, Exponential, client_speeds

SEED, HORIZON, K = 3, 400.0, 4


def lived(
    policy: Policy,
    fleet: ClientSpeeds,
    horizon: float = HORIZON,
    lose: Collection[int] = (),
    watch: Callable[[list[int], list[int]], None] = lambda at_work, waiting: None,
) -> Schedule:
    """What a conductor does with clients whose steps take as long as the planner's.

    The updates to the jobs in `lose` are lost again, with or without a turn in between. `watch` is
    told which clients are at work, and whose updates are here, whenever there is nothing to do.
    """
    reader, timeline = policy.started(SEED), Timeline(fleet.clients, K)
    here: dict[int, ReceivedUpdate] = {}  # client updates that are neither used nor dropped
    numbers = [0] * fleet.clients  # jobs of each client so far
    free = [0.0] * fleet.clients  # when each client has finished them
    arrivals: list[tuple[float, int, int, int]] = []  # time, client, job, steps
    now = 0.0

    def act(turn: Action) -> None:
        for answer in (*turn.drop, *(turn.use or ())):
            del here[answer.job]
        for answer in turn.drop:
            timeline.drop(answer.job)
        for client in turn.cancel:
            timeline.give_up(client, now)
            free[client] = now
        if turn.use is not None:
            timeline.use([answer.job for answer in turn.use], now)
        for client, until, *_ in turn.dispatch:
            first = np.array([numbers[client] * K])
            lengths = step_ends(fleet, np.array([client]), first, np.array([K]), SEED)[0]
            numbers[client] += 1
            ends = max(now, free[client]) + lengths
            steps = int((ends <= until).sum())
            free[client] = time = min(until, float(ends[-1]))
            heapq.heappush(arrivals, (time, client, timeline.begin(client, now), steps))

    def lose_some(which: Collection[int]) -> None:
        for job in sorted(which & here.keys()):
            timeline.drop(job)
            reader.lost(here.pop(job), now)

    for client in range(fleet.clients):
        reader.join(client, 0.0)
    late = {job for job in lose if job % 2}
    while True:
        while (turn := reader.act(now)) is not None:
            act(turn)
            lose_some(late)
        at_work = sorted(client for _, client, *_ in arrivals)
        watch(at_work, sorted(answer.client for answer in here.values()))
        now = min(reader.wakes(), arrivals[0][0] if arrivals else inf)
        if now > horizon:
            return timeline.schedule
        while arrivals and arrivals[0][0] <= now:
            _, client, job, steps = heapq.heappop(arrivals)
            timeline.receive(job, steps, now)
            here[job] = ReceivedUpdate(client, job, int(timeline.known.start_version[job]), steps)
            reader.receive(here[job], now)
        if now < reader.wakes():
            lose_some({job for job in lose if job not in late})


FLEET = client_speeds(np.array([1.0, 1.3, 2.0, 2.9, 5.0, 9.0]), Exponential())
POLICIES: dict[str, Policy] = {
    "poll": Polling(selected=2, local_steps=K),
    "poll all": Polling(selected=6, local_steps=K),
    "rounds": Rounds(selected=3, local_steps=K, interaction_time=0.0),
    "rounds of some": Rounds(selected=4, local_steps=K, interaction_time=0.0, wait_for=2),
    "flush": Buffered(buffer=2, local_steps=K, hand_out="flush", interaction_time=0.0),
    "arrival": Buffered(buffer=3, local_steps=K, hand_out="arrival", interaction_time=0.0),
    "idle": Buffered(buffer=2, local_steps=K, hand_out="idle", concurrency=3, interaction_time=0.0),
    "uniform": Buffered(buffer=1, local_steps=K, hand_out="uniform", interaction_time=0.0),
    "stale": Buffered(
        buffer=2, local_steps=K, hand_out="flush", interaction_time=0.0, max_staleness=3
    ),
    "windows": Windowed(period=7.0, local_steps=K),
}


@pytest.mark.parametrize("name", POLICIES)
def test_both_readers_agree(name: str) -> None:
    schedule, planned = (
        lived(POLICIES[name], FLEET),
        plan(POLICIES[name], FLEET, horizon=HORIZON, seed=SEED),
    )
    same = min(schedule.updates, planned.updates)
    assert same > 10
    jobs = int(np.searchsorted(planned.used_by, same))
    np.testing.assert_allclose(schedule.time[:same], planned.time[:same])
    order = np.lexsort((schedule.client[:jobs], schedule.used_by[:jobs]))
    wanted = np.lexsort((planned.client[:jobs], planned.used_by[:jobs]))
    for column in ("client", "used_by", "start_version", "steps"):
        mine, theirs = getattr(schedule, column)[order], getattr(planned, column)[wanted]
        assert mine.tolist() == theirs.tolist(), column


@pytest.mark.parametrize("name", [*POLICIES, "distinct"])
def test_answers_may_be_lost_again(name: str) -> None:
    """They are not used, and nobody is forgotten for it, nor has two jobs."""
    policy = DISTINCT if name == "distinct" else POLICIES[name]
    lose = set(range(0, 2000, 5)) | set(range(1, 2000, 7))

    def watch(at_work: list[int], waiting: list[int]) -> None:
        match policy:
            case Buffered(hand_out="uniform") | Rounds():
                assert at_work
            case Buffered(hand_out="idle"):
                assert len(at_work) == len(set(at_work)) == policy.concurrency
            case Buffered(hand_out="arrival"):
                assert at_work == [*range(6)]
            case _:
                assert sorted(at_work + waiting) == [*range(6)]

    schedule = lived(policy, FLEET, lose=lose, watch=watch)
    used = schedule.used_by < schedule.updates
    assert schedule.updates > 10
    assert HORIZON - schedule.time[-1] < 30
    assert len(set(schedule.client[used])) == 6
    assert schedule.wasted_steps.sum() > 0


def acted(reader: Policy, now: float) -> Action:
    """What a conductor does now: something."""
    turn = reader.act(now)
    assert turn is not None
    return turn


def started(policy: Policy, clients: int) -> tuple[Policy, list[Dispatch]]:
    reader = policy.started(SEED)
    for client in range(clients):
        reader.join(client, 0.0)
    return reader, list(acted(reader, 0.0).dispatch)


DISTINCT = Buffered(
    buffer=2, local_steps=K, hand_out="idle", concurrency=3, interaction_time=0.0, distinct=True
)


@pytest.mark.parametrize(
    "policy", [DISTINCT, *(policy for policy in POLICIES.values() if isinstance(policy, Buffered))]
)
def test_policies_know_whether_clients_wait_until_their_answer_is_used(policy: Buffered) -> None:
    schedule = lived(policy, FLEET)
    used = slice(0, schedule.jobs)
    order = np.lexsort((schedule.first_step[used], schedule.client[used]))
    client, base, used_by = (
        column[used][order]
        for column in (schedule.client, schedule.start_version, schedule.used_by)
    )
    in_turn = (base[1:] >= used_by[:-1])[client[1:] == client[:-1]]
    assert bool(in_turn.all()) == policy.in_turn


def test_who_comes_back_waits_until_its_answer_is_used() -> None:
    reader = Buffered(buffer=2, local_steps=K, hand_out="flush").started(SEED)
    for client in range(3):
        reader.join(client, 0.0)
    turn = reader.act(0.0)
    assert turn is not None
    assert len(turn.dispatch) == 3
    first = ReceivedUpdate(0, 0, -1, K)
    reader.receive(first, 0.0)
    assert reader.act(1.0) is None  # it is in the buffer
    reader.leave(0, 0.0)
    reader.join(0, 0.0)
    assert reader.act(2.0) is None
    second = ReceivedUpdate(1, 1, -1, K)
    reader.receive(second, 0.0)
    assert reader.act(3.0) == Action([first, second], [Dispatch(0), Dispatch(1)])


def test_a_client_knows_when_it_is_asked_next() -> None:
    """Its tick is the first that draws it, and two clients are drawn at every tick."""
    _, calls = started(Polling(selected=2, local_steps=K), 5)
    first = sorted(call.until for call in calls)
    assert first[:2] == [7.0, 7.0] < first[2:]


def test_a_late_answer_is_waited_for_and_then_used_at_the_next_tick() -> None:
    reader, _ = started(Polling(selected=2, local_steps=K, grace=1.0), 2)
    reader.receive(ReceivedUpdate(0, 0, -1, K), 0.0)
    assert reader.act(6.9) is None
    assert reader.act(7.0) is None
    assert reader.wakes() == 8.0
    turn = acted(reader, 8.0)
    assert turn.use == [ReceivedUpdate(0, 0, -1, K)]
    assert turn.dispatch == [Dispatch(0, 14.0)]
    reader.receive(ReceivedUpdate(1, 1, -1, K), 0.0)
    reader.receive(ReceivedUpdate(0, 2, 0, K), 0.0)
    last = acted(reader, 14.0)
    assert last.use == [ReceivedUpdate(0, 2, 0, K), ReceivedUpdate(1, 1, -1, K)]


def test_a_tick_without_answers_is_no_update() -> None:
    reader, _ = started(Polling(selected=1, local_steps=K), 1)
    turn = acted(reader, 7.0)
    assert turn.use is None
    assert reader.wakes() == 14.0


def test_who_is_lost_is_not_waited_for() -> None:
    reader, _ = started(Polling(selected=2, local_steps=K, grace=5.0), 2)
    reader.leave(1, 0.0)
    reader.receive(ReceivedUpdate(0, 0, -1, K), 0.0)
    turn = acted(reader, 7.0)
    assert turn.use == [ReceivedUpdate(0, 0, -1, K)]
    reader.join(1, 0.0)  # again
    assert acted(reader, 7.5).dispatch == [Dispatch(1, 14.0)]


def test_a_round_goes_on_without_a_lost_client() -> None:
    reader, calls = started(Rounds(selected=3, local_steps=K), 3)
    assert {call.client for call in calls} == {0, 1, 2}
    reader.receive(ReceivedUpdate(0, 0, -1, K), 0.0)
    reader.receive(ReceivedUpdate(2, 2, -1, K), 0.0)
    assert reader.act(1.0) is None
    reader.leave(1, 0.0)
    turn = acted(reader, 1.0)
    assert turn.use == [ReceivedUpdate(0, 0, -1, K), ReceivedUpdate(2, 2, -1, K)]


def test_a_deadline_ends_a_round() -> None:
    reader, calls = started(Rounds(selected=2, local_steps=K, deadline=9.0), 2)
    assert [call.until for call in calls] == [9.0, 9.0]
    reader.receive(ReceivedUpdate(1, 1, -1, K), 0.0)
    turn = acted(reader, reader.wakes())
    assert turn.use == [ReceivedUpdate(1, 1, -1, K)]
    assert turn.cancel == [0]
    reader.receive(ReceivedUpdate(0, 0, -1, K), 0.0)  # too late
    reader.receive(ReceivedUpdate(0, 2, 0, K), 0.0)
    reader.receive(ReceivedUpdate(1, 3, 0, K), 0.0)
    late = acted(reader, 10.0)
    assert late.drop == [ReceivedUpdate(0, 0, -1, K)]
    assert late.use == [ReceivedUpdate(0, 2, 0, K), ReceivedUpdate(1, 3, 0, K)]


def test_a_lost_client_leaves_its_place_to_an_idle_one() -> None:
    policy = Buffered(buffer=1, local_steps=K, hand_out="idle", concurrency=1)
    reader, calls = started(policy, 2)
    ((client, *_),) = calls
    reader.leave(client, 0.0)
    turn = acted(reader, 1.0)
    assert [call.client for call in turn.dispatch] == [1 - client]


@pytest.mark.parametrize("name", ["poll all", "windows", "flush", "arrival", "idle", "uniform"])
@pytest.mark.parametrize("comes_back", [False, True])
def test_an_answer_of_a_client_that_left_is_still_used(name: str, comes_back: bool) -> None:
    """It is not called while it is away, and once when it is back."""
    reader, calls = started(POLICIES[name], 6)
    working = [call.client for call in calls]
    gone, *others = working
    for job, client in enumerate(working):
        if client == gone:
            reader.receive(ReceivedUpdate(gone, job, -1, K), 0.0)
    reader.leave(gone, 0.0)
    if comes_back:
        reader.join(gone, 0.0)
    for job, client in enumerate(working):
        if client != gone:
            reader.receive(ReceivedUpdate(client, job, -1, K), 0.0)
    used, called = list[int](), list[int]()
    for now in (1.0, 7.0):
        while (turn := reader.act(now)) is not None:
            used += [answer.client for answer in turn.use or ()]
            called += [call.client for call in turn.dispatch]
    assert gone in used
    if name != "uniform":
        assert called.count(gone) <= comes_back
    if not comes_back:
        assert gone not in called
    assert others


def test_whose_answer_is_here_keeps_its_place() -> None:
    """Else a client that joins before the update is looked at would be one too many at work."""
    policy = Buffered(buffer=2, local_steps=K, hand_out="idle", concurrency=1)
    reader, calls = started(policy, 1)
    assert calls == [Dispatch(0)]
    reader.receive(ReceivedUpdate(0, 0, -1, K), 0.0)
    reader.join(1, 0.0)
    reader.join(2, 0.0)
    at_work: list[int] = []
    while (turn := reader.act(1.0)) is not None:
        at_work += [call.client for call in turn.dispatch]
    assert len(at_work) == 1


def test_whose_update_is_in_the_buffer_keeps_its_place() -> None:
    """It is dispatched at the flush; a client that joins before would be one too many."""
    reader, _ = started(Buffered(buffer=2, local_steps=K, hand_out="flush", concurrency=2), 2)
    reader.receive(ReceivedUpdate(0, 0, -1, K), 0.0)
    assert reader.act(1.0) is None
    reader.join(2, 1.0)
    assert acted(reader, 1.0).dispatch == []
    reader.receive(ReceivedUpdate(1, 1, -1, K), 2.0)
    assert acted(reader, 2.0).dispatch == [Dispatch(0), Dispatch(1)]


def test_jobs_that_wait_for_a_client_have_places() -> None:
    """Client 0 has both jobs: none is left for clients that join, nor once it has done one."""
    reader, _ = started(Buffered(buffer=3, local_steps=K, hand_out="uniform", concurrency=2), 2)
    reader.away(1, 0.0)
    for job in (0, 1):
        reader.receive(ReceivedUpdate(job, job, -1, K), 1.0)
        assert acted(reader, 1.0).dispatch == [Dispatch(0)]
    reader.join(2, 2.0)
    assert acted(reader, 2.0).dispatch == []
    reader.receive(ReceivedUpdate(0, 2, -1, K), 3.0)
    assert len(acted(reader, 3.0).dispatch) == 1
    reader.join(3, 4.0)
    assert acted(reader, 4.0).dispatch == []


def test_an_update_of_a_client_that_has_left_opens_no_second_place() -> None:
    policy = Buffered(buffer=2, local_steps=K, hand_out="idle", concurrency=1)
    reader, ((client, *_),) = started(policy, 3)
    reader.leave(client, 1.0)
    assert len(acted(reader, 1.0).dispatch) == 1
    reader.receive(ReceivedUpdate(client, 0, -1, K), 1.0)
    assert reader.act(1.0) is None


def test_ticks_go_on_beyond_those_that_are_drawn_at_once() -> None:
    """As many clients as are asked for, at each of a thousand ticks."""
    reader, calls = started(Polling(selected=1, local_steps=K), 3)
    due = {call.client: call.until for call in calls}
    for tick in range(1, 1001):
        (client,) = (who for who, until in due.items() if until == 7.0 * tick)
        reader.receive(ReceivedUpdate(client, tick, tick - 2, K), 0.0)
        turn = acted(reader, 7.0 * tick)
        assert turn.use is not None
        assert [answer.client for answer in turn.use] == [client]
        due[client] = turn.dispatch[0].until


def test_a_new_client_takes_the_place_of_a_lost_one() -> None:
    """And leaves none for those that come after it."""
    reader, _ = started(Buffered(buffer=1, local_steps=K, hand_out="idle", concurrency=1), 1)
    reader.leave(0, 0.0)
    reader.join(1, 0.0)
    assert acted(reader, 1.0).dispatch == [Dispatch(1)]
    reader.join(2, 0.0)
    assert acted(reader, 2.0).dispatch == []
    assert reader.act(2.0) is None


@pytest.mark.parametrize("seed", range(8))
def test_whose_next_answer_is_here_is_not_idle_at_a_flush(seed: int) -> None:
    """Client 0 has answered twice; its second answer waits while the first is used."""
    policy = Buffered(buffer=2, local_steps=K, hand_out="idle", concurrency=2)
    reader = policy.started(seed)
    reader.join(0, 0.0)
    reader.join(1, 0.0)
    assert len(acted(reader, 0.0).dispatch) == 2
    reader.receive(ReceivedUpdate(0, 0, -1, K), 0.0)
    assert acted(reader, 1.0).dispatch == [Dispatch(0)]
    reader.receive(ReceivedUpdate(1, 1, -1, K), 0.0)
    reader.receive(ReceivedUpdate(0, 2, -1, K), 0.0)
    assert acted(reader, 2.0) == Action(  # the buffer is full
        [ReceivedUpdate(0, 0, -1, K), ReceivedUpdate(1, 1, -1, K)], [Dispatch(1)]
    )


def test_an_answer_of_an_earlier_round_does_not_stand_for_one_of_this_round() -> None:
    reader, _ = started(Rounds(selected=2, local_steps=K, deadline=9.0), 2)
    reader.receive(ReceivedUpdate(1, 1, -1, K), 0.0)
    assert acted(reader, 9.0).cancel == [0]
    reader.receive(ReceivedUpdate(0, 0, -1, K), 0.0)  # too late, while it is at work again
    reader.receive(ReceivedUpdate(1, 3, 0, K), 0.0)
    assert reader.act(10.0) is None
    reader.receive(ReceivedUpdate(0, 2, 0, K), 0.0)
    turn = acted(reader, 11.0)
    assert turn.use == [ReceivedUpdate(0, 2, 0, K), ReceivedUpdate(1, 3, 0, K)]
    assert turn.drop == [ReceivedUpdate(0, 0, -1, K)]


def test_a_round_without_answers_makes_no_version() -> None:
    reader, _ = started(Rounds(selected=2, local_steps=K, deadline=9.0), 2)
    turn = acted(reader, 9.0)
    assert (turn.use, turn.cancel) == (None, [0, 1])
    for client in (0, 1):
        reader.receive(ReceivedUpdate(client, 2 + client, -1, K), 0.0)
    assert acted(reader, 12.0).use == [ReceivedUpdate(0, 2, -1, K), ReceivedUpdate(1, 3, -1, K)]
