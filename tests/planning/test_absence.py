"""What absence and faults do to a schedule, in numbers and on the screen."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from favano.cli import plan as command
from favano.methods.fedavg import FedAvg
from favano.planning.absence import Absence, absence
from favano.planning.plan import Plan
from favano.planning.plan_table import absence_line
from favano.planning.planned import Planned
from favano.records import to_json
from favano.schedule.schedule import FaultEvent, Schedule
from favano.timing import ClientSpeeds, Deterministic, client_speeds
from favano.timing.availability import Presence
from favano.timing.conditions import Conditions
from favano.types import Ints
from tests.methods.bound import any_method, bound, scheduled
from tests.specs import complete


def fleet(presence: Presence | None = None) -> ClientSpeeds:
    """Three clients of equal speed."""
    speeds = client_speeds(np.ones(3), Deterministic())
    return replace(speeds, conditions=Conditions(presence=presence))


def met(presence: Presence | None = None) -> Planned:
    """FedAvg's rounds of three clients with two steps each, up to 20, as if faults had met them."""
    method = bound(FedAvg(), fleet(presence), 2, selected=3)
    schedule = scheduled(method, 20)
    uploads = np.ones(len(schedule.client), dtype=np.int64)
    last = np.flatnonzero(schedule.used_by == schedule.updates - 1)
    uploads[last[0]] = 2
    faults = (
        FaultEvent(1.0, 0, "crash", 0),
        FaultEvent(2.0, 2, "late", 2),
        FaultEvent(2.5, 2, "late"),  # it met no job
        FaultEvent(3.0, 1, "duplicate", int(last[0])),
        FaultEvent(4.0, 0, "crash", 0),
    )
    return Planned(
        complete(horizon=20.0), 0, any_method(method), dropped(schedule, uploads, faults)
    )


def dropped(schedule: Schedule, uploads: Ints, faults: tuple[FaultEvent, ...]) -> Schedule:
    """The schedule with two more jobs of clients 0 and 1, which are lost after 1 and 2 steps."""
    more: dict[str, list[float]] = {
        "client": [0, 1], "steps": [1, 2], "start_version": [0, 0], "first_step": [90, 90],
        "used_by": [schedule.updates] * 2, "begin": [17.0, 17.0], "finish": [18.0, 19.0],
    }  # fmt: skip
    keep = schedule.used_by < schedule.updates
    columns = {}
    for name, new in more.items():
        column = getattr(schedule, name)[keep]
        columns[name] = np.append(column, np.array(new, column.dtype))
    sent = np.append(uploads[keep], [0, 0])
    return replace(schedule, **columns, uploads=sent, faults=faults, check=False)  # type: ignore[arg-type]


HALF = Presence(np.array([0, 1, 2, 3]), np.array([0.0, 0.0, 5.0]), np.array([20.0, 10.0, 10.0]))


def test_by_hand() -> None:
    planned = met(HALF)
    assert absence(planned.schedule, planned.fleet, 20.0) == Absence(
        mean_availability=(1 + 0.5 + 0.25) / 3,
        median_availability=0.5,
        lost_jobs=2,
        losing_clients=2,
        wasted_steps=3,
        late_updates=1,
        duplicate_updates=1,
        faults={"crash": 2, "duplicate": 1, "late": 2},
    )


def test_nothing_of_it_where_clients_are_always_there() -> None:
    method = bound(FedAvg(), fleet(), 2, selected=3)
    schedule = scheduled(method, 20)
    assert absence(schedule, fleet(), 20.0) is None
    assert (
        Plan(Planned(complete(horizon=20.0), 0, any_method(method), schedule)).document["absence"]
        is None
    )
    quiet = absence(schedule, fleet(HALF), 20.0)
    assert quiet is not None
    assert (quiet.lost_jobs, quiet.faults) == (0, {})


def test_the_document_has_the_same_facts() -> None:
    document = json.loads(to_json(Plan(met(HALF)).document["absence"]))
    assert document["lost_jobs"] == 2
    assert document["faults"] == {"crash": 2, "duplicate": 1, "late": 2}
    assert document["median_availability"] == 0.5


def test_in_one_line() -> None:
    numbers = absence(met(HALF).schedule, fleet(HALF), 20.0)
    assert numbers is not None
    assert absence_line(numbers) == (
        "Clients are there for 58.3% of the time (median 50.0%). "
        "Lost: 2 jobs of 2 clients, with 3 local steps. Client updates: 1 late, 1 duplicate. "
        "Faults: crash 2, duplicate 1, late 2."
    )
    always = absence(met().schedule, fleet(), 20.0)
    assert always is not None
    assert absence_line(always).startswith("Lost: 2 jobs")
    calm = Absence(0.75, 0.8, 0, 0, 0, 0, 0, {})
    assert absence_line(calm) == (
        "Clients are there for 75.0% of the time (median 80.0%). No job is lost."
    )


def test_the_command_prints_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "plan_seed", lambda *_: met(HALF))
    command.plan_command({"horizon": 20.0, "clients": 3, "selected": 3, "algorithm": "fedavg"})
    assert "\nClients are there for 58.3% of the time" in capsys.readouterr().out
