"""Energy of a run: in its history, its files, its chain of digests, and what observers are told."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import favano
from favano.run.verification import verify

KEYS: dict[str, object] = {
    "selected": 2, "local_steps": 2, "horizon": 30.0, "evaluate_every": 10.0, "learning_rate": 0.1,
}  # fmt: skip


def run(observed: list[object] | None = None, **energy: float) -> favano.Result:
    def note(cells: Mapping[str, object]) -> None:
        if observed is not None:
            observed.append(cells.get("energy"))

    fleet = favano.Fleet(clients=5, **energy)  # type: ignore[arg-type]
    return favano.simulate("favano", "digits", fleet, on_evaluate=note, **KEYS)  # type: ignore[arg-type]


def test_a_fleet_with_energy(tmp_path: Path) -> None:
    """Two joules a step and none for messages; the same run without them is the same."""
    without = run()
    assert "energy" not in without.history
    observed: list[object] = []
    result = run(observed, joules_per_step=2.0, joules_per_byte=0.0)
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
