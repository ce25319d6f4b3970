"""The law of E where clients come and go, against the planner."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from favano.methods.weights import KnownSteps, step_weights
from favano.policies import Polling
from favano.schedule import plan
from favano.theory import class_laws, expected_contacts, expected_counts
from favano.timing import (
    ClientSpeeds,
    Deterministic,
    Exponential,
    Geometric,
    LogNormal,
    StepLaw,
    WhenAway,
)
from favano.types import Floats
from tests.theory.comings import worst_error
from tests.theory.test_absence import AWAY, DAYS, HORIZON, POLLING, STATES, coming_and_going

NOW = replace(POLLING, asked="now")


def planned_counts(policy: Polling, fleet: ClientSpeeds, runs: int) -> Floats:
    """Contacts of each client with each number of steps, by run, (runs, n, K + 1)."""
    seen = np.zeros((runs, fleet.clients, policy.longest_job + 1))
    for run in range(runs):
        schedule = plan(policy, fleet, horizon=HORIZON, seed=run)
        used = slice(0, schedule.jobs)
        np.add.at(seen[run], (schedule.client[used], schedule.steps[used]), 1)
    return seen


def check_plans(fleet: ClientSpeeds, runs: int) -> None:
    seen = planned_counts(NOW, fleet, runs)
    contacts = seen.sum(axis=2)
    pmf = np.zeros(seen.shape[1:])
    for members, law in class_laws(NOW, fleet):
        pmf[members] = law.pmf
    assert worst_error(seen, contacts[:, :, None], pmf) < 4
    assert worst_error(seen[:, :, 1:].sum(axis=2), contacts, expected_counts(NOW, fleet)[0]) < 4
    error = contacts.std(axis=0, ddof=1) / np.sqrt(runs)
    expected = expected_contacts(NOW, fleet, HORIZON)
    assert (np.abs(contacts.mean(axis=0) - expected) < 4 * error).all()


@pytest.mark.quick("paused")
@pytest.mark.parametrize("when_away", AWAY)
def test_laws_against_plans(when_away: WhenAway) -> None:
    check_plans(coming_and_going(DAYS, when_away, Geometric()), runs=100)


@pytest.mark.slow
@pytest.mark.parametrize("when_away", AWAY)
@pytest.mark.parametrize("text", [DAYS, STATES, "daily:0.3:1:90"])
@pytest.mark.parametrize("law", [Geometric(), Exponential(), Deterministic(), LogNormal(0.8)])
def test_laws_against_many_plans(text: str, law: StepLaw, when_away: WhenAway) -> None:
    check_plans(coming_and_going(text, when_away, law), runs=2000)


@pytest.mark.quick("lost")
@pytest.mark.parametrize("when_away", AWAY)
def test_monte_carlo_weights_are_those_of_the_theory(when_away: WhenAway) -> None:
    """About 2000 contacts of each client, so that shares are known to about one in a hundred."""
    fleet = coming_and_going(DAYS, when_away, Geometric())
    drawn = step_weights("stochastic", "monte-carlo", (), NOW, fleet)
    positive, mean = expected_counts(NOW, fleet)
    assert isinstance(drawn, KnownSteps)
    assert drawn.positive == pytest.approx(positive, abs=0.05)
    assert drawn.mean == pytest.approx(mean, abs=0.15)
