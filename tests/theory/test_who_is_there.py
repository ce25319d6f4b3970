"""Who counts where clients come and go: the theorem and the counterexample of
docs/explanation/theory.md."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from random import Random

import absence_weights
import numpy as np
import pytest

from favano.methods import Context
from favano.methods.clock import ServerClock
from favano.methods.favano import Favano
from favano.methods.weights import KnownSteps
from favano.policies import Polling
from favano.theory import expected_contacts, expected_counts, expected_shares
from favano.timing import ClientSpeeds, Conditions, Geometric, Presence, WhenAway, client_speeds
from favano.types import Floats
from tests.effective_weights import effective_weights
from tests.methods.bound import any_method
from tests.theory.comings import Contact, PolledFleet, geometric, intervals_of, schedule_of
from tests.theory.test_absence import AWAY, DAYS, HORIZON, POLLING, TICKS, coming_and_going

Message = Callable[[Contact, Floats], Floats]  # of a contact and its start model
ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "explanation" / "theory.md").read_text(encoding="utf-8")

# Two clients: one is always there, the other for ten ticks of a hundred.
RARE = [(max(0.0, 700.0 * day + 3), 700.0 * day + 73) for day in range(10)]
ROWS = [[(0.0, 7001.0)], [(0.0, 73.0), *RARE[1:]]]
ASKED = Polling(selected=1, local_steps=5)
TIME, STEPS = 7001.0, 1000


def two_clients(when_away: WhenAway) -> ClientSpeeds:
    both = np.array([pair for row in ROWS for pair in row])
    presence = Presence(np.array([0, 1, 11]), both[:, 0], both[:, 1], TIME)
    conditions = Conditions(presence=presence, when_away=when_away)
    return replace(client_speeds(np.array([2.0, 2.0])), conditions=conditions)


def runs_of(fleet: ClientSpeeds, policy: Polling, ticks: int, runs: int) -> list[list[Contact]]:
    polled = polled_fleet(fleet, policy, ticks)
    return [list(polled.run(Random(f"run {seed}"))) for seed in range(runs)]


def method_on(fleet: ClientSpeeds, **options: object) -> Favano:
    method = Favano(**options)  # type: ignore[arg-type]
    return method.bind(Context(fleet, 5, ServerClock(selected=1)))


def polled_fleet(fleet: ClientSpeeds, policy: Polling, ticks: int) -> PolledFleet:
    assert fleet.conditions.presence is not None
    return PolledFleet(
        intervals_of(fleet.conditions.presence),
        [geometric(mean) for mean in fleet.mean.tolist()],
        policy.selected,
        policy.longest_job,
        policy.period,
        ticks,
        fleet.conditions.when_away,
    )


@pytest.mark.parametrize("when_away", AWAY)
def test_messages_add_up_to_the_expected_contacts(when_away: WhenAway) -> None:
    """E sum 1{E > 0} / P_i = E sum X / M_i = sum of the chances to be asked."""
    fleet = coming_and_going(DAYS, when_away, Geometric())
    positive, mean = expected_counts(POLLING, fleet)
    expected = expected_contacts(POLLING, fleet, HORIZON)
    runs = runs_of(fleet, POLLING, TICKS, 50)
    for stochastic in (True, False):
        sums = np.zeros((len(runs), fleet.clients))
        for row, contacts in zip(sums, runs, strict=True):
            for contact in contacts:
                who, steps = contact.client, contact.steps
                row[who] += (steps > 0) / positive[who] if stochastic else steps / mean[who]
        error = sums.std(axis=0, ddof=1) / np.sqrt(len(runs))
        assert (np.abs(sums.mean(axis=0) - expected) < 4 * error).all()


def models_after(
    contacts: list[Contact], fleet: ClientSpeeds, message: Message, size: int
) -> Iterator[tuple[Floats, Floats]]:
    """FAVANO in plain NumPy: the server's model and the clients' start models at each tick."""
    server, start = np.zeros(size), np.zeros((fleet.clients, size))
    for _, group in groupby(contacts, key=lambda contact: contact.tick):
        asked = list(group)
        sent = [start[c.client] + message(c, start[c.client]) for c in asked]
        server = (server + np.sum(sent, axis=0)) / (len(asked) + 1)
        for contact in asked:
            start[contact.client] = server
        yield server, start


@pytest.mark.parametrize("when_away", ["paused", "later"])
def test_each_message_moves_the_mean_of_all_models_alike(when_away: WhenAway) -> None:
    fleet = coming_and_going(DAYS, when_away, Geometric())
    (contacts,) = runs_of(fleet, POLLING, TICKS, 1)

    def message(contact: Contact, start: Floats) -> Floats:
        return np.asarray(np.eye(fleet.clients)[contact.client] * contact.steps)

    *_, (server, start) = models_after(contacts, fleet, message, fleet.clients)
    moved = (server + start.sum(axis=0)) / (fleet.clients + 1)
    steps = np.bincount([c.client for c in contacts], [c.steps for c in contacts])
    assert moved == pytest.approx(steps / (fleet.clients + 1), rel=1e-12)
    assert min(contact.there for contact in contacts) < POLLING.selected  # all are asked


def inverse_probability(fleet: ClientSpeeds) -> tuple[float, ...]:
    """The weights that make the two clients count alike."""
    _, mean = expected_counts(ASKED, fleet)
    return tuple((mean * expected_shares(ASKED, fleet, TIME) * 2).tolist())


def percent(value: float) -> str:
    return f"{100 * value:.1f} %"


def test_a_client_that_is_rarely_there_counts_rarely() -> None:
    paused, lost = two_clients("paused"), two_clients("lost")
    contacts = expected_contacts(ASKED, paused, TIME)
    assert contacts == pytest.approx([950, 50])
    assert expected_shares(ASKED, paused, TIME) == pytest.approx([0.95, 0.05])
    # 900 ticks alone, 100 with the other: it moves 2 models of 2, or one of 3, half of the time.
    by_hand = np.array([900 / 2 + 50 / 3, 50 / 3])
    assert expected_shares(ASKED, lost, TIME) == pytest.approx(by_hand / by_hand.sum())
    for fleet in (paused, lost):
        always, rarely = expected_shares(ASKED, fleet, TIME)
        assert f"{percent(always)} and {percent(rarely)}" in PAGE
    mean = expected_counts(ASKED, paused)[1]
    ratio = np.array(inverse_probability(paused)) / mean
    assert ratio == pytest.approx([1.9, 0.1])
    assert "here 1.9 M and 0.1 M" in PAGE


@pytest.mark.parametrize("when_away", AWAY)
def test_the_audit_agrees_that_inverse_probabilities_undo_it(when_away: WhenAway) -> None:
    """Up to the end of the run, when the server's model is not the mean of all."""
    fleet = two_clients(when_away)
    given = inverse_probability(fleet)
    equal = method_on(fleet, reweight="deterministic", weights="given", given_weights=given)
    polled = polled_fleet(fleet, ASKED, STEPS)
    plans = [schedule_of(polled, run) for run in runs_of(fleet, ASKED, STEPS, 4)]
    weights = np.mean(
        [effective_weights(any_method(equal), schedule) for schedule in plans], axis=0
    )
    assert weights == pytest.approx([0.5, 0.5], abs=0.1)


@pytest.mark.parametrize("when_away", AWAY)
def test_inverse_probabilities_make_weights_equal(when_away: WhenAway) -> None:
    """In the mean over runs, each client moves the mean of the models that are held by 1/n."""
    fleet = coming_and_going(DAYS, when_away, Geometric())
    _, mean = expected_counts(POLLING, fleet)
    given = mean * expected_shares(POLLING, fleet, HORIZON)
    runs = runs_of(fleet, POLLING, TICKS, 50)
    moved, unweighted = np.zeros((2, len(runs), fleet.clients))
    for number, contacts in enumerate(runs):
        for contact in contacts:
            held = contact.there + 1 if when_away == "lost" else fleet.clients + 1
            moved[number, contact.client] += contact.steps / given[contact.client] / held
            unweighted[number, contact.client] += contact.steps / mean[contact.client] / held
    for values, equal in ((moved, True), (unweighted, False)):
        apart = values - values.mean(axis=1, keepdims=True)
        error = apart.std(axis=0, ddof=1) / np.sqrt(len(runs))
        assert bool((np.abs(apart.mean(axis=0)) < 4 * error).all()) == equal


@pytest.mark.parametrize(
    ("corrected", "expected"), [(False, 0.9), (True, 0.0)], ids=["exact", "given"]
)
def test_where_the_model_ends_if_data_depend_on_who_is_there(
    corrected: bool, expected: float
) -> None:
    """Losses (w - 1)^2 / 2 of who is always there, (w + 1)^2 / 2 of who is not: 0 is fair."""
    fleet = two_clients("paused")
    _, mean = expected_counts(ASKED, fleet)
    divisor, rate = np.array(inverse_probability(fleet)) if corrected else mean, 0.002
    optimum = np.array([1.0, -1.0])

    def message(contact: Contact, start: Floats) -> Floats:
        shrunk = (1 - rate) ** contact.steps  # after so many steps of gradient descent
        end = optimum[contact.client] + shrunk * (start - optimum[contact.client])
        return np.asarray((end - start) / divisor[contact.client])

    late = []
    for contacts in runs_of(fleet, ASKED, STEPS, 2):
        longer = [c._replace(tick=c.tick + STEPS * n) for n in range(8) for c in contacts]
        models = [float(server[0]) for server, _ in models_after(longer, fleet, message, 1)]
        late.append(np.mean(models[len(models) // 2 :]))
    assert np.mean(late) == pytest.approx(expected, abs=0.05)
    assert "it ends at 0.9 instead of 0." in PAGE


def test_the_page_makes_weights_that_are_given() -> None:
    (block,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    names: dict[str, object] = {}
    exec(block, names)
    method, fleet, polling = names["method"], names["fleet"], names["polling"]
    assert isinstance(method, Favano)
    assert isinstance(fleet, ClientSpeeds)
    assert isinstance(polling, Polling)
    expected = method.bind(Context(fleet, 20, ServerClock(selected=20))).expected
    assert isinstance(expected, KnownSteps)
    contacts = expected_contacts(polling, fleet, 5000.0)
    moved = contacts * np.asarray(names["mean"]) / expected.mean
    assert moved == pytest.approx(np.full(100, contacts.mean()))


def test_the_page_has_the_errors_that_were_measured() -> None:
    known = json.loads((ROOT / "benchmarks" / "results" / "absence_weights.json").read_text())
    counts = known["errors"]["fast"]
    assert f"| contacts of a client | {' | '.join(counts)} |" in PAGE
    for row, speed, weight in (
        ("M", "fast", "mean"),
        ("M", "slow", "mean"),
        ("P", "slow", "positive"),
    ):
        errors = [f"{known['errors'][speed][count][weight]:.3f}" for count in counts]
        assert f"| {row} of {speed} clients | {' | '.join(errors)} |" in PAGE


@pytest.mark.slow
def test_the_errors_are_measured_again() -> None:
    known = json.loads((ROOT / "benchmarks" / "results" / "absence_weights.json").read_text())
    assert json.loads(json.dumps(absence_weights.errors())) == known["errors"]
