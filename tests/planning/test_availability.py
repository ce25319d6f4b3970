"""The audit of clients that come and go."""

from __future__ import annotations

import json
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from typer.testing import CliRunner

import favano.planning.planned as planning
import favano.studies.guarantees as guarantees
from favano.cli.app import app
from favano.errors import BadInput
from favano.methods import Context
from favano.planning.audit import audit
from favano.planning.client_weights import availability_classes, weigh_clients
from favano.planning.fleet import make_fleet
from favano.planning.plan import Plan
from favano.planning.planned import Planned
from favano.policies import Polling
from favano.records import AuditRecord
from favano.records.document import from_json, to_json
from favano.specification.presets import resolve
from favano.specification.spec import Spec
from favano.theory import expected_contacts, expected_counts
from favano.timing import (
    ClientSpeeds,
    Conditions,
    JobCost,
    Presence,
    client_speeds,
    parse_availability,
)
from tests.effective_weights import effective_weights
from tests.specs import spec_of
from tests.theory.comings import PolledFleet, geometric, intervals_of, schedule_of

HORIZON, TICKS = 7001.0, 1000


def with_presence(fleet: ClientSpeeds, presence: Presence) -> ClientSpeeds:
    return replace(fleet, conditions=Conditions(presence=presence))


def shares_of_days(shares: list[float]) -> Presence:
    """Clients that are there from the beginning of each of ten days, for these shares."""
    day, clients = 700.0, len(shares)
    begin = np.tile(np.arange(10) * day + 3, clients)
    end = begin + np.repeat(shares, 10) * day
    return Presence(np.arange(clients + 1) * 10, begin, np.minimum(end, HORIZON), HORIZON)


def planned_with(presence: Presence, mean: np.ndarray) -> Planned:
    """A seed whose schedule is that of a plain simulation."""
    keys = {"clients": len(mean), "selected": 2, "local_steps": 5, "horizon": HORIZON}
    spec = resolve(spec_of(weights="empirical", **keys))
    fleet = with_presence(client_speeds(mean), presence)
    method = spec.method.bind(Context(fleet, 5, spec.clock))
    draws = [geometric(value) for value in mean.tolist()]
    polled = PolledFleet(intervals_of(presence), draws, 2, 5, 7.0, TICKS, "lost")
    return Planned(spec, 0, method, schedule_of(polled, list(polled.run(Random(5)))))


HALF_AWAY = shares_of_days([0.9] * 6 + [0.3] * 6)
SPEEDS = np.array([2.0, 16.0] * 6)


def test_who_is_there_more_often_is_favoured() -> None:
    planned = planned_with(HALF_AWAY, SPEEDS)
    record = audit(planned, planned.weights)
    rare, often = record.availability
    assert (rare.name, often.name) == ("30 % available", "90 % available")
    assert rare.weight + often.weight == pytest.approx(1)
    weight = effective_weights(planned.method, planned.schedule)
    assert rare.weight == pytest.approx(weight[6:].sum())
    assert rare.high < rare.fair == 0.5 < often.low
    named = "by availability, it favours 90 % available clients: "
    assert f"; {named}" in record.verdict
    assert record.speeds[0].weight == pytest.approx(weight[::2].sum())
    assert from_json(AuditRecord, to_json(record)) == record


def test_clients_that_are_there_as_often_are_one_class() -> None:
    planned = planned_with(shares_of_days([0.6] * 12), SPEEDS)
    record = audit(planned, planned.weights)
    assert [share.name for share in record.availability] == ["60 % available"]
    assert "availability" not in record.verdict


def test_where_all_are_always_there_nothing_is_added() -> None:
    spec = resolve(spec_of(clients=12, selected=2, local_steps=5, horizon=700.0))
    planned = planning.plan_seed(spec, 0)
    record = audit(planned, planned.weights)
    assert record.availability == ()
    assert '"availability"' not in to_json(record)
    assert "availability" not in Plan(planned).clients[0]
    assert availability_classes(planned.fleet)[0] == []


def test_many_shares_are_tenths() -> None:
    shares = np.random.default_rng(0).permutation(np.linspace(0.1, 0.9, 40))
    fleet = with_presence(client_speeds(np.ones(40)), shares_of_days(shares.tolist()))
    names, group = availability_classes(fleet)
    assert (names[0], names[1], names[9]) == (
        "least available tenth",
        "2nd least available tenth",
        "most available tenth",
    )
    assert group.tolist() == (np.argsort(np.argsort(shares)) // 4).tolist()
    names, group = availability_classes(
        with_presence(client_speeds(np.ones(10)), shares_of_days(np.linspace(0.1, 1, 10).tolist()))
    )
    assert (names[0], names[9], group.tolist()) == (
        "10 % available",
        "100 % available",
        list(range(10)),
    )


@pytest.mark.parametrize("most", [12, 4])
def test_sums_by_availability_in_large_fleets(most: int) -> None:
    planned = planned_with(HALF_AWAY, np.array([2.0, 3, 5, 8, 11, 16] * 2))
    weights = weigh_clients(planned.method, planned.schedule, planned.fleet, most=most)
    assert weights.complete == (most == 12)
    exact = effective_weights(planned.method, planned.schedule)
    group = availability_classes(planned.fleet)[1]
    assert weights.by(group).final == pytest.approx(np.bincount(group, exact), abs=1e-12)


def test_the_plan_prints_a_second_table() -> None:
    flags = ["--clients", "20", "--selected", "4", "--local-steps", "5", "--horizon", "700"]
    flags += ["--availability", "daily:0.7:4:400"]
    runner = CliRunner()
    printed = runner.invoke(app, ["plan", *flags], env={"COLUMNS": "120"})
    assert printed.exit_code == 0, printed.output
    first, second = printed.output.split("By availability")
    assert ("speed" in first, "there" in first) == (True, False)
    assert "there" in second
    assert "2nd" in second
    document = json.loads(runner.invoke(app, ["plan", *flags, "--json"]).stdout)
    names = [share["name"] for share in document["audit"]["availability"]]
    presence = parse_availability("daily:0.7:4:400")
    assert presence is not None
    met = with_presence(client_speeds(np.full(20, 2.0)), presence.presence(0, np.arange(20), 700.0))
    assert names == availability_classes(met)[0]
    share = presence.presence(0, np.arange(20), 700.0).share(700.0)
    each = [client["share_of_time_there"] for client in document["clients"]]
    assert each == pytest.approx(share.tolist())


def test_theory_of_speeds_that_come_and_go(monkeypatch: pytest.MonkeyPatch) -> None:
    def with_absence(spec: Spec, seed: int, cost: JobCost | None = None) -> ClientSpeeds:
        return with_presence(make_fleet(spec, seed, cost), shares_of_days([0.7] * 5 + [0.2] * 5))

    monkeypatch.setattr(planning, "make_fleet", with_absence)
    monkeypatch.setattr(guarantees, "make_fleet", with_absence)
    flags = ["--clients", "10", "--selected", "2", "--local-steps", "5", "--horizon", "7001"]
    runner = CliRunner()
    laws = json.loads(runner.invoke(app, ["theory", "steps", *flags, "--json"]).stdout)
    assert list(laws) == ["fast", "slow"]
    fleet = with_absence(resolve(spec_of(clients=10, horizon=HORIZON)), 0)
    policy = Polling(selected=2, local_steps=5)
    contacts = expected_contacts(policy, fleet, HORIZON)
    positive, _ = expected_counts(policy, fleet)
    for number, law in enumerate(laws.values()):
        those = fleet.groups == number
        share = contacts[those] / contacts[those].sum()
        assert law["p_positive"] == pytest.approx(share @ positive[those])
    for command in ("alpha", "advise", "bound", "learning-rate", "complexity"):
        refused = runner.invoke(app, ["theory", command, *flags]).exception
        assert isinstance(refused, BadInput), command
        assert str(refused).startswith("fleet=absence or faults: the theorem is about clients that")
