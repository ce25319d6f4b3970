"""What `favano reproduce` keeps, read as results."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from favano.errors import BadInput
from favano.records import Entry, Row, entries_to_csv
from favano.report import collect


def write(
    out: Path, algorithm: str, seed: int, *, status: str = "complete", **spec: object
) -> None:
    entry = Entry("paper", algorithm, "iid", seed, "complete")._replace(status=status)  # type: ignore[arg-type]
    rows = [
        (seed, 50.0 * k, k, 20 * k, 10, 10, 1.0 / (k + 1), 0.1 * k, 0.0, 0.0, 20 * k)
        for k in range(3)
    ]
    document = {
        "favano": "0.1.0",
        "command": "favano reproduce table-2",
        "spec": {"algorithm": algorithm, "seed": seed, "horizon": 100.0, **spec},
        "footprint": "",
        "entry": entry,
        "history": rows,
    }
    name = f"{algorithm}-{seed}-{len(list(out.glob('runs/*')))}.json"
    (out / "runs").mkdir(parents=True, exist_ok=True)
    (out / "runs" / name).write_text(json.dumps(document))


def test_seeds_are_put_together_and_searches_left_out(tmp_path: Path) -> None:
    for seed in (1, 0):
        write(tmp_path, "favano", seed)
    write(tmp_path, "fedavg", 0, status="diverged")
    write(tmp_path, "favano", 1000, holdout=10_000)
    favano, fedavg = collect([tmp_path])
    assert [row.seed for row in favano.rows] == [0, 0, 0, 1, 1, 1]
    assert [run.accuracy for run in favano.runs] == [0.2, 0.2]
    assert favano.spec["seeds"] == 2
    assert favano.spec["seed"] == 0
    assert (favano.status, fedavg.status) == ("complete", "partial")
    assert favano.command == "favano reproduce table-2"


def test_a_table_has_the_runs_of_its_ledgers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their files are beside its folder, with those of other tables."""
    out = tmp_path / "out"
    for algorithm, seed in (("favano", 0), ("favano", 1), ("fedavg", 0), ("quafl", 0)):
        write(out, algorithm, seed)
    first, second, fedavg, _ = (file.stem for file in sorted((out / "runs").iterdir()))
    table = out / "table"
    table.mkdir()
    entry = Entry("paper", "any", "iid", 0, "complete")
    main = [entry._replace(digest=name) for name in (first, second, "not-made-yet")]
    (table / "runs.csv").write_text(entries_to_csv(main))
    (table / "readings.csv").write_text(entries_to_csv([entry._replace(digest=fedavg)]))
    monkeypatch.chdir(table)
    for path in (table, Path()):
        results = collect([path])
        assert [(result.name, len(result.runs)) for result in results] == [
            ("favano", 2),
            ("fedavg", 1),
        ]
    assert [result.name for result in collect([out])] == ["favano", "fedavg", "quafl"]
    assert [result.name for result in collect([tmp_path])] == ["favano", "fedavg", "quafl"]
    with pytest.raises(BadInput, match="given twice"):
        collect([table, out])
    (out / "runs").rename(out / "elsewhere")
    with pytest.raises(BadInput, match="runs/ of favano reproduce"):
        collect([table])


def test_settings_are_told_apart(tmp_path: Path) -> None:
    write(tmp_path, "favano", 0, reweight="stochastic")
    write(tmp_path, "favano", 0, reweight="none")
    names = {result.name for result in collect([tmp_path])}
    assert names == {"favano (reweight stochastic)", "favano (reweight none)"}


def test_a_damaged_file_is_refused_by_name(tmp_path: Path) -> None:
    write(tmp_path, "favano", 0)
    (file,) = (tmp_path / "runs").iterdir()
    file.write_text(file.read_text()[:-40])
    with pytest.raises(BadInput, match=rf"{file.name}: is damaged"):
        collect([tmp_path])


def test_a_run_that_went_on_after_nan_has_diverged(tmp_path: Path) -> None:
    """Its history has null, in the place of NaN."""
    write(tmp_path, "favano", 0)
    write(tmp_path, "favano", 1, status="diverged")
    file = next((tmp_path / "runs").glob("favano-1-*"))
    document = json.loads(file.read_text())
    document["history"][-1][Row._fields.index("loss")] = None
    file.write_text(json.dumps(document))
    (favano,) = collect([tmp_path])
    assert favano.status == "diverged"
    assert [math.isnan(run.loss) for run in favano.runs] == [False, True]
