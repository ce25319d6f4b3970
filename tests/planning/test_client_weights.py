"""Weights of clients: one record, whoever reads it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from favano.engine import weigh
from favano.methods import Context
from favano.planning.client_weights import speed_classes, speed_thirds, weigh_clients
from favano.results import write_result
from favano.run.runner import run
from favano.run.samples import load_samples, named_model
from favano.schedule import plan
from favano.specification.presets import resolve
from favano.timing import client_speeds as any_fleet
from tests.effective_weights import effective_weights
from tests.specs import spec_of


def test_many_speeds_are_tenths() -> None:
    """Eleven speeds are judged by tenths of the clients, ten by themselves."""
    names, tenth = speed_classes(any_fleet(np.arange(20.0, 0.0, -1)))
    assert (names[0], names[1], names[-1], len(names)) == (
        "fastest tenth",
        "2nd tenth",
        "slowest tenth",
        10,
    )
    assert tenth.tolist() == [9 - client // 2 for client in range(20)]
    names, speed = speed_classes(any_fleet(np.arange(20.0) % 10 + 1))
    assert names[9] == "class 9"
    assert speed.tolist() == [*range(10), *range(10)]


def test_many_speeds_are_thirds_in_figures() -> None:
    names, third = speed_thirds(any_fleet(np.array([9.0, 1, 8, 2, 7, 3, 6, 4, 5])))
    assert names == ["fastest third", "middle third", "slowest third"]
    assert third.tolist() == [2, 0, 2, 0, 2, 0, 1, 1, 1]


@pytest.mark.parametrize("most", [12, 5])
def test_every_way_of_summing_is_right(most: int) -> None:
    """Eleven speeds, one shared by clients of two thirds; all weighed alone, or five of them."""
    fleet = any_fleet(np.array([1.0, 2, 3, 4, 4, 5, 6, 7, 8, 9, 10, 11]))
    spec = resolve(spec_of(clients=12, selected=4, local_steps=3, horizon=300))
    method = spec.method.bind(Context(fleet, 3, spec.clock))
    schedule = plan(method.policy(), fleet, horizon=300, seed=0)
    exact = effective_weights(method, schedule)
    weights = weigh_clients(method, schedule, fleet, most=most)
    assert weights.complete == (most == 12)
    assert weights.each == pytest.approx(exact[weights.listed], abs=1e-12)
    (_, tenth), (_, third) = speed_classes(fleet), speed_thirds(fleet)
    assert third[3:5].tolist() == [0, 1]  # one speed, two thirds
    for group in (third, tenth):
        assert weights.by(group).final == pytest.approx(np.bincount(group, exact), abs=1e-12)


def test_a_result_weighs_its_clients_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the audit says and what `participation.json` says is one number, to the last bit."""
    times = []

    def counted(*given: object) -> object:
        times.append(len(given))
        return weigh(*given)  # type: ignore[arg-type]

    monkeypatch.setattr("favano.planning.client_weights.weigh", counted)
    spec = resolve(spec_of(clients=10, selected=3, local_steps=2, horizon=140, seeds=2, seed=4))
    samples = load_samples(spec)
    result = run(spec, samples, named_model(spec, samples), workers=1)
    write_result(tmp_path, result, "favano run")
    assert len(times) == 1
    audit = json.loads((tmp_path / "summary.json").read_text())["audit"]
    other = json.loads((tmp_path / "participation.json").read_text())
    assert [speed["weight"] for speed in audit["speeds"]] == [
        speed["weight"] for speed in other["speeds"]
    ]
    assert [float(f"{weight:.6g}") for weight in audit["weight"]] == other["listed"]["weight"]
    assert sum(audit["weight"]) == pytest.approx(1)
