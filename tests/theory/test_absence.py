"""The law of E where clients come and go, against plain simulations that share no code with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, product
from random import Random

import numpy as np
import pytest

from favano.errors import BadInput
from favano.methods.weights import step_weights
from favano.policies import (
    Buffered,
    LeastRecent,
    Policy,
    Polling,
    Rounds,
    Weighted,
    Windowed,
)
from favano.theory import (
    TheoryProblem,
    advise,
    class_laws,
    estimates_of,
    expected_contacts,
    expected_counts,
    expected_windows,
    server_time,
    setting,
    speed_laws,
    step_count,
)
from favano.timing import (
    ClientSpeeds,
    Conditions,
    Deterministic,
    Exponential,
    Fault,
    Geometric,
    Links,
    LogNormal,
    Presence,
    StepLaw,
    Trace,
    WhenAway,
    client_speeds,
    parse_availability,
)
from favano.types import Floats
from tests.theory.comings import (
    Intervals,
    PolledFleet,
    constant,
    counts,
    exponential,
    geometric,
    intervals_of,
    lognormal,
    worst_error,
)

HORIZON, TICKS = 800.0, 114
POLLING = Polling(selected=2, local_steps=5)
AWAY: tuple[WhenAway, ...] = ("lost", "paused", "later")
DAYS, STATES = "daily:0.7:4:400", "two-state:70:30"
Draw = Callable[[float], Callable[[Random], float]]


def presence_of(rows: Intervals) -> Presence:
    first = np.cumsum([0, *map(len, rows)])
    begin, end = np.array([pair for row in rows for pair in row], dtype=float).reshape(-1, 2).T
    return Presence(first, begin, end)


def fleet_of(
    rows: Intervals, when_away: WhenAway, mean: Sequence[float], law: StepLaw | None = None
) -> ClientSpeeds:
    conditions = Conditions(presence=presence_of(rows), when_away=when_away)
    return replace(client_speeds(np.array(mean), law), conditions=conditions)


def coming_and_going(
    text: str, when_away: WhenAway, law: StepLaw, clients: int = 6
) -> ClientSpeeds:
    availability = parse_availability(text)
    assert availability is not None
    presence = availability.presence(0, np.arange(clients), HORIZON)
    mean = np.where(np.arange(clients) % 3 == 0, 16.0, 2.0)
    return replace(
        client_speeds(mean, law), conditions=Conditions(presence=presence, when_away=when_away)
    )


def simulated(fleet: ClientSpeeds, draw: Draw, runs: int) -> Floats:
    assert fleet.conditions.presence is not None
    polled = PolledFleet(
        intervals_of(fleet.conditions.presence),
        [draw(mean) for mean in fleet.mean.tolist()],
        selected=2,
        local_steps=5,
        period=7.0,
        ticks=TICKS,
        when_away=fleet.conditions.when_away,
    )
    return counts(polled, runs, seed=1)


def check_laws(fleet: ClientSpeeds, draw: Draw, runs: int) -> None:
    seen = simulated(fleet, draw, runs)
    contacts = seen.sum(axis=2)
    pmf = np.zeros(seen.shape[1:])
    for members, law in class_laws(POLLING, fleet):
        pmf[members] = law.pmf
    assert worst_error(seen, contacts[:, :, None], pmf) < 4
    positive, mean = expected_counts(POLLING, fleet)
    assert worst_error(seen[:, :, 1:].sum(axis=2), contacts, positive) < 4
    steps = seen @ np.arange(6)
    error = np.std(steps - mean * contacts, axis=0, ddof=1) / np.sqrt(runs)
    assert (np.abs((steps - mean * contacts).mean(axis=0)) < 4 * error + 1e-9).all()
    expected = expected_contacts(POLLING, fleet, HORIZON)
    error = contacts.std(axis=0, ddof=1) / np.sqrt(runs)
    assert (np.abs(contacts.mean(axis=0) - expected) < 4 * error).all()


@pytest.mark.parametrize("when_away", AWAY)
@pytest.mark.parametrize(
    ("text", "law", "draw"), [(DAYS, Geometric(), geometric), (STATES, Exponential(), exponential)]
)
def test_laws_against_simulations(text: str, law: StepLaw, draw: Draw, when_away: WhenAway) -> None:
    check_laws(coming_and_going(text, when_away, law), draw, runs=100)


@pytest.mark.slow
@pytest.mark.parametrize("when_away", AWAY)
@pytest.mark.parametrize("text", [DAYS, STATES, "daily:0.3:1:90"])
@pytest.mark.parametrize(
    ("law", "draw"),
    [
        (Geometric(), geometric),
        (Exponential(), exponential),
        (Deterministic(), constant),
        (LogNormal(0.8), lognormal),
    ],
)
def test_laws_against_long_simulations(
    text: str, law: StepLaw, draw: Draw, when_away: WhenAway
) -> None:
    check_laws(coming_and_going(text, when_away, law), draw, runs=3000)


ROWS = [[(0, 20), (26, 50)], [(0, 50)], [(9, 33), (36, 50)]]


def enumerated(
    selected: int, when_away: WhenAway, mean: Sequence[int]
) -> list[dict[int, Fraction]]:
    """Probabilities times contacts of each number of steps, by going through all selections."""
    ticks = range(7, 50, 7)
    here = [[i for i in range(3) if any(a <= t < b for a, b in ROWS[i])] for t in ticks]
    choices = [list(combinations(who, min(selected, len(who)))) for who in here]
    chance = Fraction(1, int(np.prod([len(choice) for choice in choices])))
    total = [dict.fromkeys(range(4), Fraction(0)) for _ in ROWS]
    for draws in product(*choices):
        last = [ROWS[i][0][0] for i in range(3)]
        for now, asked in zip(ticks, draws, strict=True):
            for i in asked:
                came = max(a for a, _ in ROWS[i] if a <= now)
                window = now - (max(last[i], came) if when_away == "lost" else last[i])
                if when_away == "paused":
                    there = [t for t in range(last[i], now) if any(a <= t < b for a, b in ROWS[i])]
                    window = len(there)
                total[i][min(window // mean[i], 3)] += chance
                last[i] = now
    return total


@pytest.mark.parametrize("when_away", AWAY)
@pytest.mark.parametrize("selected", [1, 2, 3])
def test_all_selections_of_a_small_fleet(selected: int, when_away: WhenAway) -> None:
    mean = (4, 9, 5)
    fleet = fleet_of(ROWS, when_away, mean, Deterministic())
    policy = Polling(selected=selected, local_steps=3)
    laws = class_laws(policy, fleet)
    assert sorted(int(members[0]) for members, _ in laws) == [0, 1, 2]
    contacts = expected_contacts(policy, fleet, 50.0)
    for (client,), law in laws:
        total = enumerated(selected, when_away, mean)[client]
        every = sum(total.values())
        assert contacts[client] == pytest.approx(float(every), rel=1e-12)
        shares = [float(value / every) for value in total.values()]
        assert law.pmf.tolist() == pytest.approx(shares, abs=1e-13)


@pytest.mark.parametrize("when_away", AWAY)
@pytest.mark.parametrize("law", [Geometric(), Exponential(), Deterministic(), LogNormal(0.5)])
def test_clients_that_never_go_have_the_law_of_the_long_run(
    law: StepLaw, when_away: WhenAway
) -> None:
    """Up to the first contacts: 4 of 10,000 ticks, about, see a job that began at time 0."""
    fleet = fleet_of([[(0, 70_001)]] * 4, when_away, [3.0] * 4, law)
    ((members, own),) = class_laws(POLLING, fleet)
    assert members.tolist() == [0, 1, 2, 3]
    known = step_count(POLLING, clients=4, law=law, mean=3.0)
    assert own.pmf == pytest.approx(known.pmf, abs=2e-4)


def test_the_means_do_not_depend_on_how_it_is_summed(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = coming_and_going(STATES, "paused", Exponential(), clients=12)
    whole = expected_counts(POLLING, fleet)
    monkeypatch.setattr("favano.theory.absence._ROWS", 100)
    monkeypatch.setattr("favano.schedule.draws._BLOCK", 300)
    parts = expected_counts(POLLING, fleet)
    assert np.array(parts) == pytest.approx(np.array(whole), rel=1e-12)


def test_clients_that_are_there_together_share_a_law() -> None:
    rows = [[(0, 20), (30, 60)], [(0, 60)], [(0, 20), (30, 60)], [(30, 60)]]
    fleet = fleet_of(rows, "lost", [2.0, 2.0, 2.0, 2.0])
    members = sorted(who.tolist() for who, _ in class_laws(POLLING, fleet))
    assert members == [[0, 2], [1], [3]]
    other_speed = fleet_of(rows, "lost", [2.0, 2.0, 3.0, 2.0])
    assert len(class_laws(POLLING, other_speed)) == 4


@pytest.mark.parametrize("when_away", AWAY)
def test_who_is_never_there_to_be_asked(when_away: WhenAway) -> None:
    rows: Intervals = [[], [(1, 6)], [(0, 60)], [(7, 14)]]
    fleet = fleet_of(rows, when_away, [2.0] * 4, Deterministic())
    positive, mean = expected_counts(POLLING, fleet)
    assert np.isnan(positive).tolist() == np.isnan(mean).tolist() == [True, True, False, False]
    assert expected_contacts(POLLING, fleet, 60.0).tolist() == [0, 0, 8, 1]
    assert positive[3] == mean[3] == 0  # it comes at a tick, and is asked then
    nobody = fleet_of([[], []], when_away, [2.0, 2.0])
    assert class_laws(POLLING, nobody) == []


def test_speeds_share_the_law_of_their_contacts() -> None:
    fleet = coming_and_going(STATES, "lost", Geometric())
    contacts = expected_contacts(POLLING, fleet, HORIZON)
    positive, mean = expected_counts(POLLING, fleet)
    for members, law in speed_laws(POLLING, fleet, HORIZON):
        share = contacts[members] / contacts[members].sum()
        assert law.p_positive == pytest.approx(share @ positive[members])
        assert law.mean == pytest.approx(share @ mean[members])
    assert [len(members) for members, _ in speed_laws(POLLING, fleet, HORIZON)] == [4, 2]


AWAY_FLEET = fleet_of(ROWS, "lost", [2.0, 2.0, 4.0])
LINKS = Links(np.ones(3), np.ones(3))


@pytest.mark.parametrize(
    ("policy", "met", "law"),
    [
        (replace(POLLING, selection=LeastRecent()), AWAY_FLEET.conditions, None),
        (
            replace(POLLING, selection=Weighted(weights=(1.0, 2.0, 3.0))),
            AWAY_FLEET.conditions,
            None,
        ),
        (replace(POLLING, asked="ahead"), AWAY_FLEET.conditions, None),
        (replace(POLLING, interruption="resume"), AWAY_FLEET.conditions, None),
        (replace(POLLING, interruption="keep"), AWAY_FLEET.conditions, None),
        (replace(POLLING, idle_in_interaction=True), AWAY_FLEET.conditions, None),
        (POLLING, replace(AWAY_FLEET.conditions, links=LINKS), None),
        (POLLING, Conditions(links=LINKS), None),
        (POLLING, replace(AWAY_FLEET.conditions, timeout=3.0), None),
        (POLLING, replace(AWAY_FLEET.conditions, faults=(Fault((0,), "crash"),)), None),
        (POLLING, Conditions(faults=(Fault((0,), "slow"),)), None),
        (POLLING, AWAY_FLEET.conditions, Trace((np.ones(2),) * 3)),
        (Rounds(selected=2, deadline=9.0), AWAY_FLEET.conditions, None),
    ],
)
def test_what_has_no_exact_law_is_refused(
    policy: Policy, met: Conditions, law: StepLaw | None
) -> None:
    fleet = replace(AWAY_FLEET, conditions=met, law=law or AWAY_FLEET.law)
    with pytest.raises(BadInput, match=r"exact law of their steps; use weights=empirical"):
        class_laws(policy, fleet)


def test_weights_of_one_horizon_are_not_taken() -> None:
    """FAVANO's weights would be others in a longer run."""
    with pytest.raises(BadInput, match=r"^weights=exact: cannot be known where clients come and"):
        step_weights("stochastic", "exact", (), POLLING, AWAY_FLEET)


def test_the_refusal_of_links_names_what_the_user_can_change() -> None:
    fleet = replace(AWAY_FLEET, conditions=Conditions(links=LINKS))
    with pytest.raises(BadInput, match=r"^weights=exact: messages that take time leave clients"):
        step_weights("stochastic", "exact", (), POLLING, fleet)


def test_runs_with_faults_cannot_be_made_longer() -> None:
    fleet = replace(AWAY_FLEET, conditions=Conditions(faults=(Fault((0,), "slow", value=2.0),)))
    with pytest.raises(BadInput, match=r"^weights=monte-carlo: cannot be known from a longer run"):
        step_weights("stochastic", "monte-carlo", (), POLLING, fleet)


def test_faults_that_change_no_step_change_no_law() -> None:
    faults = (Fault((0,), "poison", value=-1.0), Fault((1,), "duplicate"))
    met = replace(AWAY_FLEET.conditions, faults=faults)
    same = expected_counts(POLLING, replace(AWAY_FLEET, conditions=met))
    assert np.array(same).tolist() == np.array(expected_counts(POLLING, AWAY_FLEET)).tolist()


@pytest.mark.parametrize("policy", [Rounds(selected=2), Buffered(buffer=1), Windowed(period=7.0)])
def test_clients_of_other_policies_answer_with_all_their_steps(policy: Policy) -> None:
    for conditions in (AWAY_FLEET.conditions, Conditions(links=LINKS, timeout=5.0)):
        fleet = replace(AWAY_FLEET, conditions=conditions)
        assert expected_counts(policy, fleet)[1].tolist() == [20, 20, 20]


def test_what_costs_minutes_is_refused_before_it_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("favano.theory.absence._MOST", 20)
    message = r"^weights=exact: about \d+ pairs of contacts would take minutes; use empirical"
    with pytest.raises(BadInput, match=message):
        class_laws(POLLING, AWAY_FLEET)


def test_theorems_about_clients_that_are_always_there() -> None:
    message = "^fleet=absence or faults: "
    known = estimates_of(TheoryProblem())
    calls: list[Callable[[], object]] = [
        lambda: setting(POLLING, AWAY_FLEET, "stochastic"),
        lambda: advise(POLLING, AWAY_FLEET, known, target=0.1),
        lambda: expected_windows(Windowed(period=7.0), AWAY_FLEET),
        lambda: server_time(Rounds(selected=2), AWAY_FLEET),
    ]
    for call in calls:
        with pytest.raises(BadInput, match=message):
            call()


def test_empirical_frequencies_are_pooled_over_clients_that_meet_the_same() -> None:
    """Not over those that come and go: who does so together is known up to the horizon alone."""
    rows = [[(0, 20), (30, 60)], [(0, 60)], [(0, 20), (30, 60)], [(0, 60)]]
    fleet = fleet_of(rows, "lost", [2.0, 2.0, 2.0, 3.0])

    def groups(conditions: Conditions) -> list[int]:
        own = replace(fleet, conditions=conditions)
        weights = step_weights("stochastic", "empirical", (), POLLING, own)
        assert hasattr(weights, "group")
        return [int(np.flatnonzero(weights.group == g)[0]) for g in weights.group]

    assert groups(Conditions()) == [0, 0, 0, 3]
    assert groups(fleet.conditions) == [0, 1, 2, 3]
    links = Links(np.array([1.0, 1.0, 2.0, 1.0]), np.ones(4))
    assert groups(Conditions(links=links)) == [0, 0, 2, 3]
    assert groups(Conditions(faults=(Fault((1,), "slow", value=2.0),))) == [0, 1, 0, 3]
