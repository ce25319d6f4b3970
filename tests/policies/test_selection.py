"""Selection rules against enumerations and naive rules; nonsense of one's own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import combinations, permutations
from math import sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from favano.errors import BadInput
from favano.options import option
from favano.policies import (
    Buffered,
    BySamples,
    Candidates,
    LeastRecent,
    Polling,
    ReceivedUpdate,
    Selection,
    Selector,
    Uniform,
    Weighted,
)
from favano.schedule import plan
from favano.timing import ClientSpeeds, client_speeds, parse_law, two_speeds
from favano.types import Ints

ROUNDS = 20_000


def drawn_one_by_one(weights: Sequence[float], size: int) -> dict[tuple[int, ...], float]:
    """The chance of each set, over all orders in which its clients may be drawn."""
    chances: dict[tuple[int, ...], float] = {}
    for order in permutations(range(len(weights)), size):
        chance, left = 1.0, sum(weights)
        for client in order:
            chance *= weights[client] / left
            left -= weights[client]
        chances[tuple(sorted(order))] = chances.get(tuple(sorted(order)), 0.0) + chance
    return chances


@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize(
    ("rule", "weights"),
    [
        (Uniform(), (1.0,) * 5),
        (Weighted(weights=(5.0, 1.0, 2.0, 0.5, 1.5)), (5.0, 1.0, 2.0, 0.5, 1.5)),
        (BySamples(samples=(10, 20, 30, 40, 400)), (10, 20, 30, 40, 400)),
        (Weighted(weights=(3.0,) * 5), (1.0,) * 5),
    ],
)
def test_frequencies_are_those_of_an_enumeration(
    rule: Selection, weights: Sequence[float], size: int
) -> None:
    selector = Selector(rule, 7)
    drawn = Counter(map(tuple, selector.select_ahead(range(5), size, ROUNDS).tolist()))
    for chosen, chance in drawn_one_by_one(weights, size).items():
        error = sqrt(chance * (1 - chance) / ROUNDS)
        assert drawn[chosen] / ROUNDS == pytest.approx(chance, abs=4 * error + 1e-12), chosen


@given(st.integers(0, 100), st.integers(1, 8), st.integers(0, 5))
def test_rounds_drawn_at_once_are_those_drawn_one_by_one(seed: int, size: int, first: int) -> None:
    weights = tuple(np.random.default_rng(seed).uniform(0.1, 9, 9).tolist())
    for rule in (Uniform(), Weighted(weights=weights), BySamples(samples=weights), LeastRecent()):
        ahead, single = Selector(rule, seed), Selector(rule, seed)
        ahead.round = single.round = first
        at_once = ahead.select_ahead(range(9), size, 6).tolist()
        assert at_once == [single.select(range(9), size) for _ in range(6)]
        assert ahead.select(range(9), size) == single.select(range(9), size)


def test_equal_weights_draw_as_uniform_does() -> None:
    equal = Selector(Weighted(weights=(0.3,) * 50), 3).select_ahead(range(50), 7, 200)
    assert equal.tolist() == Selector(Uniform(), 3).select_ahead(range(50), 7, 200).tolist()


@given(st.data())
def test_nobody_waits_longer_than_those_that_least_recent_selects(data: st.DataObject) -> None:
    """Clients come and go; a list of when each was selected last is kept here, too."""
    selector, last = (
        Selector(LeastRecent(), data.draw(st.integers(0, 99))),
        dict.fromkeys(range(8), -1),
    )
    for number in range(12):
        present = data.draw(st.sets(st.integers(0, 7), min_size=1))
        chosen = selector.select(present, min(3, len(present)))
        assert len(set(chosen)) == min(3, len(present))
        assert present.issuperset(chosen)
        left = [last[client] for client in present.difference(chosen)]
        assert max(last[client] for client in chosen) <= min(left, default=99)
        last |= dict.fromkeys(chosen, number)


def test_least_recent_begins_at_random() -> None:
    firsts = Counter(
        tuple(Selector(LeastRecent(), seed).select(range(4), 2)) for seed in range(1200)
    )
    assert firsts.keys() == set(combinations(range(4), 2))
    assert max(firsts.values()) < 200 + 5 * sqrt(200)


class Fixed(Selection):
    """Returns what it is told to."""

    what: int = option(0, "which nonsense")

    def select(self, clients: Candidates, size: int) -> Sequence[int] | Ints:
        return NONSENSE[self.what][0](clients)  # type: ignore[return-value]


NONSENSE: list[tuple[Callable[[Candidates], object], str]] = [
    (lambda clients: [0], r"select returns 1 of 5 clients; need 2 \(round 0\)"),
    (lambda clients: [0, 1, 2], "select returns 3 of 5 clients; need 2"),
    (lambda clients: [], "select returns 0 of 5 clients; need 2"),
    (lambda clients: [1, 9], "select returns client 9, which cannot be asked"),
    (lambda clients: [-1, 1], "select returns client -1, which cannot be asked"),
    (lambda clients: [1, 1], "select returns a client twice"),
    (lambda clients: [0.5, 1.5], r"select returns \[0.5, 1.5\]; need numbers of clients"),
    (lambda clients: [[0], [1, 2]], ".*need numbers of clients"),
    (lambda clients: None, "select returns None; need numbers of clients"),
    (lambda clients: clients.nobody, "select raises AttributeError"),  # type: ignore[attr-defined]
]


@pytest.mark.parametrize("what", range(len(NONSENSE)))
def test_nonsense_gets_one_sentence(what: int) -> None:
    rule = Fixed(what=what)
    with pytest.raises(BadInput, match=f"selection=fixed: {NONSENSE[what][1]}"):
        Selector(rule, 0).select(range(5), 2)
    with pytest.raises(BadInput, match=f"selection=fixed: {NONSENSE[what][1]}"):
        plan(Polling(selected=2, selection=rule), two_speeds(5), horizon=100, seed=0)


def test_a_rule_that_cannot_select_is_refused() -> None:
    with pytest.raises(BadInput, match="selection=lazy: has no select; define it"):

        class Lazy(Selection):
            """Nothing."""


def test_all_are_selected_where_there_are_not_more() -> None:
    selector = Selector(Fixed(what=3), 0)
    assert selector.select([4, 2], 2) == [2, 4]
    assert selector.select([4], 3) == [4]
    assert selector.round == 2


def test_draws_depend_on_nothing_but_seed_client_and_round() -> None:
    def known(clients: Ints, number: int) -> Candidates:
        zero = np.zeros(len(clients), dtype=np.int64)
        return Candidates(number, clients, zero, zero, zero.astype(float), 5)

    every, some = known(np.arange(6), 3), known(np.array([1, 4]), 3)
    assert some.random.tolist() == every.random[[1, 4]].tolist()
    assert some.random.tolist() != known(np.array([1, 4]), 4).random.tolist()
    assert some.rng.random() == every.rng.random() != known(np.arange(6), 4).rng.random()


@pytest.mark.parametrize("rule", [LeastRecent(), Weighted(weights=(9.0, 1.0, 3.0, 5.0, 0.2, 2.0))])
def test_renumbering_clients_with_their_streams_renumbers_the_schedule(rule: Selection) -> None:
    fleet = client_speeds(np.array([1.0, 2, 3, 4, 5, 6]), parse_law("exponential"))
    order = np.array([3, 1, 5, 0, 2, 4])
    other = ClientSpeeds(fleet.mean[order], fleet.law, fleet.streams[order])
    policy = Polling(selected=2, selection=rule, local_steps=3)
    first, second = (plan(policy, each, horizon=300, seed=2) for each in (fleet, other))
    assert order[second.client].tolist() == first.client.tolist()
    assert second.steps.tolist() == first.steps.tolist()


def test_polls_go_on_where_clients_have_come_and_gone() -> None:
    """Two of four are asked longest ago; the newcomer, who was never asked, is next."""
    policy = Polling(selected=1, selection=LeastRecent(), local_steps=1, waiting_time=7.0)
    machine, period = policy.started(3), policy.period
    for client in range(3):
        machine.join(client, 0.0)
    order, now = [], 0.0
    dispatched = machine.act(now)
    assert dispatched is not None
    due = {job.client: round(job.until / period) for job in dispatched.dispatch}
    for tick in range(1, 5):
        now = tick * period
        (client,) = [client for client in due if due[client] == tick]
        machine.receive(ReceivedUpdate(client, tick, -1, 1), now)
        action = machine.act(now)
        assert action is not None
        order.append(client)
        due |= {job.client: round(job.until / period) for job in action.dispatch}
    assert sorted(order[:3]) == [0, 1, 2]
    assert order[3] == order[0]
    machine.join(7, now)
    action = machine.act(now)
    assert action is not None
    assert [(job.client, round(job.until / period)) for job in action.dispatch] == [(7, 5)]


def test_an_idle_client_is_chosen_by_the_rule() -> None:
    """One at a time of four equal clients: in turns, each once in four server steps."""
    policy = Buffered(
        buffer=1, hand_out="idle", selection=LeastRecent(), concurrency=1, distinct=False,
        latency="none", local_steps=2,
    )  # fmt: skip
    fleet = client_speeds(np.full(4, 1.0), parse_law("deterministic"))
    client = plan(policy, fleet, horizon=40, seed=1).client[:20].reshape(5, 4)
    assert all(sorted(turn) == [0, 1, 2, 3] for turn in client.tolist())
    assert (client == client[0]).all()


def test_buffered_updates_know_rules_where_somebody_is_chosen() -> None:
    with pytest.raises(BadInput, match="selection=least-recent: requires hand_out=idle"):
        Buffered(hand_out="arrival", selection=LeastRecent())
    with pytest.raises(BadInput, match=r"selection=least-recent: need a favano\.Selection"):
        Buffered(hand_out="idle", selection="least-recent")  # type: ignore[arg-type]
