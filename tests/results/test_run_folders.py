"""What `favano reproduce` keeps, read as results."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from favano.errors import BadInput
from favano.records import CostRecord, Entry, Row, Status, entries_to_csv, run_record
from favano.results import Result, collect, write_result
from tests.specs import complete

COST = CostRecord(1.0, 0.5, 0.25, "a desk", "100 W")


def write(
    out: Path,
    algorithm: str,
    seed: int,
    *,
    status: Status = "complete",
    loss: float = 0.5,
    **keys: object,
) -> Path:
    """One run of two evaluations, in a folder of the next number."""
    result = Result.of(complete(algorithm=algorithm, seed=seed, horizon=100.0, **keys))
    row = Row(seed, 0.0, 0, 0, 0, 0, 2.5, {"accuracy": 0.1}, 0.0, 0.0, 0)
    last = Row(seed, 100.0, 2, 40, 10, 10, loss, {"accuracy": 0.2}, 0.0, 0.0, 40)
    result.rows = [row, last]
    result.summary = replace(
        result.summary, status=status, runs=(run_record(algorithm, last, status),), cost=COST
    )
    folder = out / "runs" / f"{len(list(out.glob('runs/*'))):016x}"
    write_result(folder, result, "favano reproduce table-2")
    return folder


def test_seeds_are_put_together_and_searches_left_out(tmp_path: Path) -> None:
    for seed in (1, 0):
        write(tmp_path, "favano", seed)
    write(tmp_path, "fedavg", 0, status="partial")
    write(tmp_path, "favano", 1000, holdout=100)
    favano, fedavg = collect([tmp_path])
    assert [row.seed for row in favano.rows] == [0, 0, 1, 1]
    assert favano.accuracy == [0.2, 0.2]
    assert (favano.keys["seeds"], favano.spec.run.seed) == (2, 0)
    assert (favano.status, fedavg.status) == ("complete", "partial")
    assert favano.summary.command == "favano reproduce table-2"
    assert favano.models == {}


def test_a_table_has_the_runs_of_its_ledgers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their folders are beside its folder, with those of other tables."""
    out = tmp_path / "out"
    pairs = (("favano", 0), ("favano", 1), ("fedavg", 0), ("quafl", 0))
    first, second, fedavg, _ = (write(out, algorithm, seed).name for algorithm, seed in pairs)
    table = out / "table"
    table.mkdir()
    entry = Entry("paper", "any", "iid", 0, "complete")
    main = [entry._replace(digest=name) for name in (first, second, "not-made-yet", "f" * 16)]
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
    (out / "elsewhere" / "README").touch()
    with pytest.raises(BadInput, match="runs/ of favano reproduce"):
        collect([table])


def test_settings_are_told_apart(tmp_path: Path) -> None:
    write(tmp_path, "favano", 0, reweight="stochastic")
    write(tmp_path, "favano", 0, reweight="none")
    names = {result.name for result in collect([tmp_path])}
    assert names == {"favano (reweight stochastic)", "favano (reweight none)"}


def test_folders_of_other_names_in_a_folder_of_this_name_are_results_of_their_own(
    tmp_path: Path,
) -> None:
    for name, seed in (("first", 0), ("second", 1)):
        write(tmp_path, "favano", seed).rename(tmp_path / "runs" / name)
    assert [result.name for result in collect([tmp_path])] == ["favano (seed 0)", "favano (seed 1)"]


def test_a_damaged_file_is_refused_by_name(tmp_path: Path) -> None:
    file = write(tmp_path, "favano", 0) / "summary.json"
    file.write_text(file.read_text()[:-40])
    with pytest.raises(BadInput, match=rf"{file.name}: is damaged"):
        collect([tmp_path])


def test_a_run_that_went_on_after_nan_has_diverged(tmp_path: Path) -> None:
    write(tmp_path, "favano", 0)
    write(tmp_path, "favano", 1, status="diverged", loss=math.nan)
    (favano,) = collect([tmp_path])
    assert favano.status == "diverged"
    assert [math.isnan(run.loss) for run in favano.runs] == [False, True]
