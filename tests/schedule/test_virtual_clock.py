"""The virtual clock against the vectorised planners, and with policies that nobody here wrote."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from favano.errors import BadInput
from favano.options import option
from favano.policies import (
    Action,
    Candidates,
    Dispatch,
    LeastRecent,
    Policy,
    Polling,
    ReceivedUpdate,
    Rounds,
    Selection,
    Uniform,
    Weighted,
    Windowed,
)
from favano.schedule import Schedule, check_progress_is_known, plan
from favano.schedule.virtual_clock import drive
from favano.timing import ClientSpeeds, client_speeds, parse_law, two_speeds

LAWS = ["geometric", "exponential", "deterministic", "lognormal:0.7"]


@st.composite
def fleets(draw: st.DrawFn) -> ClientSpeeds:
    clients = draw(st.integers(1, 12))
    means = draw(st.lists(st.integers(1, 30), min_size=clients, max_size=clients))
    fleet = client_speeds(np.array(means, dtype=np.float64), parse_law(draw(st.sampled_from(LAWS))))
    order = np.array(draw(st.permutations(range(clients))), dtype=np.int64)
    return ClientSpeeds(fleet.mean[order], fleet.law, fleet.streams[order])


class LastOfAll(Selection):
    """The largest numbers, but for a random client that was selected the fewest times."""

    def select(self, clients: Candidates, size: int) -> list[int]:
        rarest = clients.client[clients.times == clients.times.min()]
        first = int(clients.rng.choice(rarest))
        return [first, *(client for client in clients.client[::-1] if client != first)][:size]


@st.composite
def policies(draw: st.DrawFn, clients: int) -> Policy:
    """Whatever planner and virtual clock both know."""
    each = st.lists(st.integers(1, 6), min_size=clients, max_size=clients).map(tuple)
    steps, selected = draw(st.integers(1, 6) | each), draw(st.integers(1, clients))
    weights = st.lists(st.floats(0.01, 100), min_size=clients, max_size=clients).map(tuple)
    rules = [st.just(Uniform()), st.just(LeastRecent()), st.just(LastOfAll())]
    rule = draw(st.one_of(*rules, weights.map(lambda given: Weighted(weights=given))))
    rule = rule if selected < clients else Uniform()
    match draw(st.sampled_from(["polling", "rounds", "windowed"])):
        case "polling":
            waiting = draw(st.sampled_from([4.0, 0.7, 11.3]))
            return Polling(
                selected=selected, selection=rule, local_steps=steps, waiting_time=waiting
            )
        case "windowed":
            return Windowed(period=draw(st.sampled_from([1.0, 7.0, 3.3, 20.0])), local_steps=steps)
    wait_for = draw(st.none() | st.integers(1, selected))
    return Rounds(
        selected=selected,
        selection=rule,
        local_steps=steps,
        interaction_time=draw(st.sampled_from([0.0, 3.0, 0.7])),
        wait_for=wait_for,
        deadline=draw(st.none() | st.integers(1, 100).map(float)),
        at_deadline=draw(st.sampled_from(["drop", "take"])),
        drop_last=True,
    )


@given(data=st.data(), fleet=fleets(), seed=st.integers(0, 1000))
def test_planners_and_the_virtual_clock_agree(
    data: st.DataObject, fleet: ClientSpeeds, seed: int
) -> None:
    """On all that is used. A planner lets a round without any update be a server step."""
    policy, horizon = data.draw(policies(fleet.clients)), float(data.draw(st.integers(5, 300)))
    planned = plan(policy, fleet, horizon=horizon, seed=seed)
    driven = drive(policy, fleet, horizon, seed)
    steps, jobs = planned.updates, planned.jobs
    if isinstance(policy, Rounds) and policy.deadline is not None:
        empty = np.flatnonzero(np.diff(planned.offsets) == 0)
        steps = int(empty[0]) if len(empty) else steps
        jobs = int(planned.offsets[steps])
    if isinstance(policy, Rounds):  # a server step that begins by the horizon may end after it
        assert driven.updates >= steps
    else:
        assert driven.updates == steps
    np.testing.assert_allclose(driven.time[:steps], planned.time[:steps], rtol=1e-9)
    assert np.array_equal(driven.local_steps, planned.local_steps)
    assert driven.wasted_steps[:steps].tolist() == planned.wasted_steps[:steps].tolist()
    for column in ("client", "steps", "start_version", "used_by", "first_step"):
        mine, theirs = getattr(driven, column)[:jobs], getattr(planned, column)[:jobs]
        assert mine.tolist() == theirs.tolist(), column
    np.testing.assert_allclose(driven.begin[:jobs], planned.begin[:jobs], rtol=1e-9)


class Turns(Policy):
    """Every `period`, the s present clients that were asked longest ago."""

    selected: int = option(2, "clients per tick", symbol="s")
    period: float = option(7.0, "time between ticks")

    def start(self, seed: int) -> None:
        self.tick = 1
        self.waiting: list[int] = []  # those asked longest ago first
        self.here: list[ReceivedUpdate] = []

    def join(self, client: int, now: float) -> None:
        self.waiting.append(client)

    def leave(self, client: int, now: float) -> None:
        self.waiting = [other for other in self.waiting if other != client]

    def receive(self, update: ReceivedUpdate, now: float) -> None:
        self.here.append(update)
        self.waiting.append(update.client)

    def wakes(self) -> float:
        return self.tick * self.period

    def act(self, now: float) -> Action | None:
        if now < self.wakes():
            return None
        self.tick += 1
        use, self.here = self.here, []
        asked, self.waiting = self.waiting[: self.selected], self.waiting[self.selected :]
        return Action(use or None, [Dispatch(client) for client in asked])


def test_a_policy_that_nobody_here_wrote_is_planned() -> None:
    """Four clients of two steps of 2 each: pairs take turns, and answer by the next tick."""
    fleet = client_speeds(np.full(4, 2.0), parse_law("deterministic"))
    schedule = plan(Turns(local_steps=2), fleet, horizon=28, seed=0)
    assert schedule.time.tolist() == [14.0, 21.0, 28.0]
    assert [set(pair) for pair in schedule.client[:6].reshape(3, 2).tolist()] == [
        {0, 1},
        {2, 3},
        {0, 1},
    ]
    assert schedule.start_version[:6].tolist() == [-1, -1, 0, 0, 1, 1]
    assert schedule.begin[:6].tolist() == [7.0, 7.0, 14.0, 14.0, 21.0, 21.0]
    assert schedule.finish[:6].tolist() == [11.0, 11.0, 18.0, 18.0, 25.0, 25.0]


def test_a_policy_is_as_it_was_after_it_was_driven() -> None:
    policy = Turns(selected=3)
    first = plan(policy, two_speeds(9), horizon=200, seed=0)
    again = plan(policy, two_speeds(9), horizon=200, seed=0)
    assert vars(policy) == {"local_steps": 20, "selected": 3, "period": 7.0}
    assert first.client.tolist() == again.client.tolist()
    assert policy == Turns(selected=3) != Turns(selected=4)


def test_options_of_a_policy_do_not_change() -> None:
    policy = Turns()
    with pytest.raises(AttributeError, match="selected is an option: it cannot change"):
        policy.selected = 3  # type: ignore[misc]


class Scripted(Turns):
    """Acts as it is told to."""

    def act(self, now: float) -> Action | None:
        return ACT(self, now)  # type: ignore[return-value]

    def wakes(self) -> float:
        return WAKES(self)


def first(*dispatches: Dispatch) -> Callable[[Turns, float], object]:
    """Dispatch once."""

    def act(policy: Turns, now: float) -> object:
        policy.tick += 1
        return Action(dispatch=dispatches) if policy.tick == 2 else None

    return act


def twice(policy: Turns, now: float) -> object:
    """Use an update twice, one time after the other."""
    policy.tick += 1
    if policy.tick == 2:
        return Action(dispatch=[Dispatch(0)])
    return Action(use=policy.here[:1]) if policy.here else None


NONSENSE: dict[str, tuple[Callable[[Turns, float], object], float, str]] = {
    "an absent client": (first(Dispatch(7)), inf, "dispatches client 7, which is not there"),
    "a busy client": (
        lambda policy, now: Action(dispatch=[Dispatch(0)]),
        inf,
        "dispatches client 0, which is at work already",
    ),
    "a client twice": (first(Dispatch(1), Dispatch(1)), inf, "dispatches a client twice"),
    "a past appointment": (first(Dispatch(1, 0.0)), inf, "client 1 until 0, which is past"),
    "too many steps": (first(Dispatch(1, inf, 21)), inf, r"for 21 steps; need 1\.\.20"),
    "an update twice": (twice, inf, "uses or drops an update that is not here, or no longer"),
    "a stranger's update": (
        lambda policy, now: Action(use=[ReceivedUpdate(0, 5, -1)]),
        inf,
        "not here, or no longer: job 5 of client 0",
    ),
    "an idle client cancelled": (
        lambda policy, now: Action(cancel=[1]),
        inf,
        "cancels client 1, which is not at work",
    ),
    "a past alarm": (lambda policy, now: None, 0.0, "wakes at 0, which is past"),
    "no alarm": (lambda policy, now: None, nan, "wakes at nan, which is past"),
    "never an action": (lambda policy, now: None, inf, "waits forever: no client is at work"),
    "actions without end": (lambda policy, now: Action(), inf, "acts without end"),
    "an error": (lambda policy, now: policy.nobody, inf, "raises AttributeError"),  # type: ignore[attr-defined]
    "no action": (lambda policy, now: [1], inf, r"act returns \[1\]; need a favano.Action"),
}


@pytest.mark.parametrize("name", NONSENSE)
def test_nonsense_gets_one_sentence(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    act, wakes, rule = NONSENSE[name]
    monkeypatch.setitem(globals(), "ACT", act)
    monkeypatch.setitem(globals(), "WAKES", lambda policy: wakes)
    with pytest.raises(BadInput, match=f"policy=Scripted: .*{rule}"):
        plan(Scripted(), two_speeds(3), horizon=100, seed=0)


ACT: Callable[[Turns, float], object] = first()
WAKES: Callable[[Turns], float] = Turns.wakes


def test_steps_of_a_job_are_those_of_its_dispatch() -> None:
    class Growing(Turns):
        def act(self, now: float) -> Action | None:
            action = Turns.act(self, now)
            if action is None:
                return None
            jobs = [Dispatch(job.client, inf, min(self.tick, 5)) for job in action.dispatch]
            return action._replace(dispatch=jobs)

    fleet = client_speeds(np.full(2, 1.0), parse_law("deterministic"))
    schedule: Schedule = plan(Growing(local_steps=5), fleet, horizon=35, seed=0)
    assert schedule.steps[:8].tolist() == [2, 2, 3, 3, 4, 4, 5, 5]
    mine = schedule.client == 0
    assert schedule.first_step[mine].tolist() == [0, 2, 5, 9, 14]
    assert (schedule.finish - schedule.begin)[:8].tolist() == schedule.steps[:8].tolist()


def test_progress_under_a_policy_of_ones_own_is_refused() -> None:
    """How its jobs are cut is not in the schedule."""
    with pytest.raises(BadInput, match="policy=Turns: the steps of a job under way are not"):
        check_progress_is_known(Turns(), two_speeds(3))
