"""Runs that went on after NaN: JSON on disk, NaN in memory."""

from __future__ import annotations

import json
import math
from pathlib import Path

from favano.results import collect
from favano.studies.archive import Archive
from favano.studies.experiment import Experiment, StudyRun, make
from favano.studies.request import Request
from tests.run.small import SMALL, reproduce_small, small_runs


def wild_runs(seeds: int) -> list[StudyRun]:
    run = small_runs(seeds)[1]
    keys = {"learning_rate": 1e25, "non_finite": "skip"}
    return [StudyRun(run.reading, run.column, make(run.spec, keys))]


def refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is not JSON")


def test_null_on_disk_is_nan_in_memory(tmp_path: Path) -> None:
    wild = Experiment(
        "wild", "Wild", wild_runs, 1, SMALL.lines, {"iid": "IID"}, figures=SMALL.figures
    )
    reproduce_small(tmp_path, Request(), experiments=[wild])
    archive, (run,) = Archive(tmp_path), wild_runs(1)
    json.loads((archive.path(run) / "summary.json").read_text(), parse_constant=refuse)
    kept = archive.read(run)
    assert archive.entry(run).status == "diverged"
    assert math.isnan(kept.runs[0].loss)
    assert math.isnan(kept.rows[-1].loss)
    assert math.isfinite(kept.rows[0].loss)
    (result,) = collect([tmp_path])
    assert result.status == "diverged"
