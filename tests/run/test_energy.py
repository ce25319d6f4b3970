"""Energy of a run: in its history, its files, its chain of digests, and what observers are told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import favano
from favano.planning import planned
from favano.run.verification import verify
from favano.specification.spec import Spec
from favano.timing import ClientSpeeds, Energy

KEYS: dict[str, object] = {
    "selected": 2, "local_steps": 2, "horizon": 30.0, "evaluate_every": 10.0, "learning_rate": 0.1,
}  # fmt: skip


def run(observed: list[object] | None = None) -> favano.Result:
    def note(cells: Mapping[str, object]) -> None:
        if observed is not None:
            observed.append(cells.get("energy"))

    fleet = favano.Fleet(clients=5)
    return favano.simulate("favano", "digits", fleet, on_evaluate=note, **KEYS)  # type: ignore[arg-type]


def test_a_fleet_with_energy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Two joules a step and none for messages; the same run without them is the same."""
    without = run()
    assert "energy" not in without.history
    make = planned.make_fleet

    def with_energy(spec: Spec, seed: int) -> ClientSpeeds:
        return replace(make(spec, seed), energy=Energy(np.full(5, 2.0), np.zeros(5)))

    monkeypatch.setattr(planned, "make_fleet", with_energy)
    observed: list[object] = []
    result = run(observed)
    expected = [2.0 * steps for steps in map(float, map(str, result.history["local_steps"]))]
    assert result.history["energy"] == observed == expected
    assert expected[-1] > 0
    assert result.runs[0].energy == expected[-1]
    assert [row.model_digest for row in result.rows] == [row.model_digest for row in without.rows]
    assert result.rows[-1].digest != without.rows[-1].digest
    folder = result.save(tmp_path / "result")
    read = favano.load(folder).results[0]
    assert read.history["energy"] == expected
    assert read.digests.status == "agree"
    assert all(verdict.right for verdict in verify(folder))
    path = folder / "history.csv"
    path.write_text(path.read_text().replace(f",{expected[-1]},", f",{expected[-1] + 1},"))
    assert favano.load(folder).results[0].digests.status == "changed"
