"""A policy that nobody here wrote, in a federation."""

from __future__ import annotations

import re
from math import inf
from pathlib import Path

import numpy as np
import pytest

import favano
from favano.errors import BadInput
from favano.flower.ledger import Joined, Ledger, UsedUpdate
from favano.methods import make_method
from favano.options import option
from favano.policies import Action, Dispatch, Policy, Polling, ReceivedUpdate
from favano.schedule import Schedule
from favano.types import Floats
from tests.engine import by_loss
from tests.flower.federations import diverges, grid_of, lived, strategy_of
from tests.methods.bound import any_method

FILE = Path(__file__).parents[2] / "examples" / "own_policy.py"


def test_it_replays_to_the_bit() -> None:
    strategy = strategy_of(make_method(f"{FILE}:Turns", {"period": 3.0}))
    result = lived(strategy, grid_of())
    assert result.trace is not None
    schedule = result.trace.schedule
    assert schedule.updates == 12
    assert set(schedule.client[: schedule.jobs].tolist()) == {0, 1, 2}
    assert diverges(strategy, result).largest == 0


def test_a_method_takes_the_policy_of_the_federation() -> None:
    policy = {"name": f"{FILE}:LeastRecent", "period": 3.0}
    strategy = strategy_of("fedavg", policy=policy, selected=1)
    result = lived(strategy, grid_of())
    assert result.trace is not None
    assert {len(past.clients) for past in result.rounds} <= {1, 2, 3}
    begin, client = result.trace.schedule.begin, result.trace.schedule.client
    assert sorted(set(begin.tolist())) == sorted(begin.tolist())  # one at a time
    assert set((begin % 3.0).tolist()) == {0.0}
    assert client[np.argsort(begin)][:3].tolist() == [0, 1, 2]
    assert diverges(strategy, result).largest == 0
    with pytest.raises(BadInput, match="policy=LeastRecent: quafl aggregates what its own policy"):
        strategy_of("quafl", policy=policy)
    with pytest.raises(BadInput, match="weights=measured: cannot be known with policy LeastRecent"):
        strategy_of("favano", policy=policy, tick=None)
    with pytest.raises(
        BadInput, match=r"tick=7\.0: requires a method that polls, not policy Least"
    ):
        strategy_of("fedavg", policy=policy, tick=7.0)


class Failing(Policy):
    """Asks everybody once, and raises an error in one of its hooks."""

    hook: str = option("act", "where it fails")

    def fail(self, hook: str) -> None:
        if hook == self.hook:
            raise LookupError(f"{hook} cannot")

    def start(self, seed: int) -> None:
        self.fail("start")
        self.new: list[int] = []

    def join(self, client: int, now: float) -> None:
        self.fail("join")
        self.new.append(client)

    def leave(self, client: int, now: float) -> None: ...

    def receive(self, update: ReceivedUpdate, now: float) -> None:
        self.fail("receive")

    def wakes(self) -> float:
        self.fail("wakes")
        return inf

    def act(self, now: float) -> Action | None:
        self.fail("act")
        new, self.new = self.new, []
        return Action(dispatch=[Dispatch(client) for client in new]) if new else None


@pytest.mark.parametrize("hook", ["start", "join", "act", "wakes", "receive"])
def test_an_error_in_it_is_the_same_sentence_by_both_clocks(hook: str) -> None:
    policy = Failing(hook=hook)
    with pytest.raises(BadInput) as simulated:
        favano.plan("fedavg", policy=policy, horizon=1000)
    with pytest.raises(BadInput) as real:
        lived(strategy_of("fedavg", policy=policy))
    assert str(real.value) == str(simulated.value)
    sentence = rf"policy=Failing: raises LookupError: {hook} cannot \(.*test_own_policy.py, line "
    assert re.match(sentence, str(real.value))


def test_nonsense_ends_a_whole_federation() -> None:
    with pytest.raises(BadInput, match=r"policy=Nonsense: dispatches client 5, which is not there"):
        lived(strategy_of("fedavg", policy=Nonsense))


def test_asyncfeded_sets_the_lengths_of_jobs_and_replays_to_the_bit() -> None:
    strategy = strategy_of(make_method("asyncfeded", {"distance_target": 2.5}))
    result = lived(strategy, grid_of())
    assert result.trace is not None
    schedule = result.trace.schedule
    assert schedule.updates == 12
    assert len(set(schedule.steps[: schedule.jobs].tolist())) > 2
    assert diverges(strategy, result).largest == 0


def test_nodes_say_their_losses_to_a_policy_that_sees_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first of them, from the initial model, is that of the start: the loss of ten classes."""
    losses: list[float] = []
    inner = by_loss.HighestLoss.receive

    def receive(self: by_loss.HighestLoss, update: ReceivedUpdate, now: float) -> None:
        losses.append(update.loss)
        assert update.delta_norm > 0
        assert update.duration > 0
        inner(self, update, now)

    monkeypatch.setattr(by_loss.HighestLoss, "receive", receive)
    strategy = strategy_of(any_method(by_loss.ByLoss()))
    result = lived(strategy, grid_of())
    assert diverges(strategy, result).largest == 0
    assert len(losses) >= 12
    assert all(0 < loss < 5 for loss in losses)


class Nonsense(Policy):
    """Does at time 0 what it is told to, and then nothing."""

    def start(self, seed: int) -> None:
        self.here: list[ReceivedUpdate] = []

    def join(self, client: int, now: float) -> None: ...

    def leave(self, client: int, now: float) -> None: ...

    def receive(self, update: ReceivedUpdate, now: float) -> None:
        self.here.append(update)

    def wakes(self) -> float:
        return inf

    def act(self, now: float) -> Action | None:
        if now == 0:
            return Action(dispatch=[Dispatch(5)])
        if now == 1:
            return Action(dispatch=[Dispatch(0)])
        if now == 2:
            return Action(dispatch=[Dispatch(1, until=1.5)])
        return Action(use=self.here) if self.here else None


def rates(schedule: Schedule, now: float) -> Floats:
    return np.ones(len(schedule.client))


def began() -> Ledger:
    ledger = Ledger(Nonsense(), 2, 0, rates)
    ledger.apply(Joined(0.0, 0, 100))
    return ledger


def test_nonsense_gets_one_sentence_in_real_time() -> None:
    ledger = began()
    for time, rule in (
        (0.0, r"dispatches client 5, which is not there \(time 0\)"),
        (2.0, "dispatches client 1, which is not there"),
    ):
        with pytest.raises(BadInput, match=f"policy=Nonsense: {rule}"):
            ledger.turn_at(time)
    ledger.apply(Joined(0.5, 1, 101))
    with pytest.raises(BadInput, match=r"dispatches client 1 until 1\.5, which is past"):
        ledger.turn_at(2.0)
    assert ledger.turn_at(1.0) is not None
    with pytest.raises(BadInput, match="dispatches client 0, which is at work already"):
        ledger.turn_at(1.0)
    ledger.apply(UsedUpdate(3.0, 0, 4, 1.0))
    assert ledger.turn_at(3.0) is not None
    with pytest.raises(BadInput, match="uses or drops an update that is not here, or no longer"):
        ledger.turn_at(3.0)


def test_a_policy_that_never_acts_is_refused_once_nobody_else_can_join() -> None:
    ledger = began()
    assert ledger.turn_at(5.0) is None
    assert ledger.wakes() == inf  # another client may join
    ledger.apply(Joined(6.0, 1, 101))
    assert ledger.turn_at(7.0) is None
    with pytest.raises(BadInput, match="policy=Nonsense: waits forever: no client is at work"):
        ledger.wakes()


def test_what_only_a_simulation_has_is_refused() -> None:
    with pytest.raises(BadInput, match="strict_ties=True: is a reading of the simulated clock"):
        Ledger(Polling(selected=2, strict_ties=True), 2, 0, rates)
    with pytest.raises(BadInput, match=r"grace=7\.0: need 0 <= grace < 7"):
        Polling(selected=2, grace=7.0)


class Descending(favano.Selection):
    """The clients that were selected the fewest times, the last numbers first."""

    def select(self, clients: favano.Candidates, size: int) -> list[int]:
        ranked = sorted(zip(clients.times, -clients.client, strict=True))
        return [-int(number) for _, number in ranked[:size]]


@pytest.mark.parametrize("rule", ["least-recent", "weighted:5,1,1", Descending])
@pytest.mark.parametrize("method", ["fedavg", "favano"])
def test_selection_rules_in_a_federation_replay_to_the_bit(method: str, rule: object) -> None:
    strategy = strategy_of(method, selection=rule, selected=1)
    result = lived(strategy, grid_of())
    assert result.trace is not None
    schedule = result.trace.schedule
    asked = schedule.client[: schedule.jobs].tolist()
    if rule is Descending and method == "fedavg":
        assert asked[:6] == [2, 1, 0] * 2
    elif rule == "least-recent":
        assert all(sorted(asked[first : first + 3]) == [0, 1, 2] for first in (0, 3, 6))
        assert asked[:3] == asked[3:6]
    assert diverges(strategy, result).largest == 0


def test_rules_without_effect_and_those_that_need_samples_are_refused() -> None:
    with pytest.raises(BadInput, match="selection=least-recent: has no effect with fedasync"):
        strategy_of("fedasync", selection="least-recent")
    with pytest.raises(BadInput, match="selection=samples: needs the data"):
        strategy_of("fedavg", selection="samples", selected=1)


@pytest.mark.parametrize("rule", ["power-of-choice:2", "oort"])
def test_rules_that_see_losses_in_a_federation_replay_to_the_bit(rule: str) -> None:
    strategy = strategy_of("fedavg", selection=rule, selected=1, samples=(30, 20, 10))
    result = lived(strategy, grid_of())
    assert result.trace is not None
    schedule = result.trace.schedule
    assert set(schedule.client[: schedule.jobs].tolist()) == {0, 1, 2}
    assert diverges(strategy, result).largest == 0
