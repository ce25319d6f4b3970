"""Who trained the model, as result folders keep it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import favano.planning.participation as contribution
from favano.methods import AnyMethod, Context
from favano.methods.clock import ServerClock
from favano.methods.fedavg import FedAvg
from favano.planning.charts import job_chart
from favano.planning.client_weights import weigh_clients
from favano.planning.participation import participation, participation_of
from favano.planning.planned import Planned, plan_seed, plan_seeds
from favano.records import finite
from favano.results import Result, write_result
from favano.schedule import Schedule, plan
from favano.specification.spec import required
from favano.timing import ClientSpeeds, Trace, traced_fleet
from tests.effective_weights import effective_weights
from tests.specs import complete, spec_of


def small(clients: int = 40) -> tuple[AnyMethod, Schedule, ClientSpeeds]:
    planned = plan_seed(complete(clients=clients, selected=8, horizon=400), 0)
    return planned.method, planned.schedule, planned.fleet


def test_by_hand() -> None:
    """Two clients of step time 1, 2 and 3, 4 meet at every barrier, two steps each."""
    fleet = traced_fleet(Trace((np.array([1.0, 2.0]), np.array([3.0, 4.0]))))
    method = FedAvg().bind(Context(fleet, 2, ServerClock(selected=2)))
    schedule = plan(method.policy(), fleet, horizon=15, seed=0)
    weights = weigh_clients(method, schedule, fleet)  # type: ignore[arg-type]
    record = participation(weights, schedule, fleet, 7)
    assert schedule.updates == 2
    assert finite(record) == {
        "seed": 7,
        "clients": 2,
        "speeds": [
            {"name": "fast", "clients": 1, "contacts": 2, "steps": 4, "weight": 0.5},
            {"name": "slow", "clients": 1, "contacts": 2, "steps": 4, "weight": 0.5},
        ],
        "listed": {
            "client": [0, 1],
            "speed": [0, 1],
            "contacts": [2, 2],
            "steps": [4, 4],
            "staleness": [0.0, 0.0],
            "weight": [0.5, 0.5],
        },
        "staleness": {"width": 1, "counts": [[2], [2]], "mean": 0.0, "median": 0.0, "most": 0},
    }


def test_a_sample_is_listed_and_everybody_is_summed() -> None:
    method, schedule, fleet = small()
    whole = participation(weigh_clients(method, schedule, fleet), schedule, fleet, 0)
    part = participation(weigh_clients(method, schedule, fleet, most=10), schedule, fleet, 0)
    listed = part.listed.client
    assert (len(listed), listed[0], listed[-1]) == (10, 0, 39)
    assert part.clients == 40
    exact = effective_weights(method, schedule)
    assert part.listed.weight == pytest.approx(exact[list(listed)], rel=1e-5)
    for mine, theirs in zip(part.speeds, whole.speeds, strict=True):
        assert mine.weight == pytest.approx(theirs.weight, abs=1e-12)
        assert mine.contacts == theirs.contacts
    assert part.staleness == whole.staleness


def test_staleness_is_counted_whole_in_few_bins(monkeypatch: pytest.MonkeyPatch) -> None:
    method, schedule, fleet = small()
    monkeypatch.setattr(contribution, "_BINS", 4)
    histogram = participation(weigh_clients(method, schedule, fleet), schedule, fleet, 0).staleness
    most = int(schedule.staleness.max())
    assert histogram.most == most
    assert len(histogram.counts[0]) <= 4
    assert histogram.width * len(histogram.counts[0]) > most
    assert sum(map(sum, histogram.counts)) == schedule.jobs
    first = (schedule.staleness < histogram.width).sum()
    assert sum(counts[0] for counts in histogram.counts) == first


def test_nothing_happened() -> None:
    method, _, fleet = small()
    schedule = plan(method.policy(), fleet, horizon=1, seed=0)
    record = participation(weigh_clients(method, schedule, fleet), schedule, fleet, 0)
    assert schedule.updates == 0
    assert set(record.listed.weight) == {0.0}
    assert record.staleness.counts == ((0,), (0,))


def with_participation(first: Planned) -> Result:
    result = Result.of(spec_of())
    result.participation = participation_of(first)
    return result


def test_it_is_written_beside_the_rest(tmp_path: Path) -> None:
    method, schedule, fleet = small()
    first = Planned(complete(), 0, method, schedule)
    write_result(tmp_path, with_participation(first), "favano run")
    record = participation(weigh_clients(method, schedule, fleet), schedule, fleet, 0)
    record = replace(record, jobs=job_chart(schedule, fleet, required(first.spec.run.horizon)))
    assert json.loads((tmp_path / "participation.json").read_text()) == finite(record)


def test_a_method_that_cannot_be_audited_is_written_all_the_same(tmp_path: Path) -> None:
    """AsyncFedED: its steps depend on the models."""
    spec = complete(algorithm="asyncfeded", clients=10, horizon=100)
    first = plan_seeds(spec)[0]
    write_result(tmp_path, with_participation(first), "favano run")
    assert (tmp_path / "summary.json").exists()
    assert not (tmp_path / "participation.json").exists()
