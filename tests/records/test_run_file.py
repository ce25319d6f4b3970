"""Run files: JSON on disk, NaN in memory."""

from __future__ import annotations

import json
import math
from dataclasses import replace

from favano.records import Entry, MetricRecord, Row, RunFile, run_from_json, run_to_json

ROW = Row(0, 7.0, 1, 3, 64, 128, 2.5, {"accuracy": 0.25}, 0.0, 0.0, 3)
ONE = RunFile(
    favano="0.1.0",
    command="favano reproduce table-2",
    spec={"algorithm": "favano", "seed": 0, "horizon": 7.0},
    footprint="100 W",
    kernels="native",
    entry=Entry("paper", "favano", "iid", 0, "complete", loss=2.5, variance=0.0),
    history=(ROW._replace(time=0.0), ROW),
)


def test_there_and_back() -> None:
    assert run_from_json(run_to_json(ONE)) == ONE
    assert list(json.loads(run_to_json(ONE))) == [
        "favano", "command", "spec", "footprint", "kernels", "entry", "history",
    ]  # fmt: skip


def test_null_on_disk_is_nan_in_memory() -> None:
    entry = ONE.entry._replace(status="diverged", loss=math.nan, variance=math.inf)
    text = run_to_json(replace(ONE, entry=entry, history=(ROW._replace(loss=math.nan),)))
    assert "NaN" not in text
    run = run_from_json(text)
    assert run.entry.loss is not None
    assert math.isnan(run.entry.loss)
    assert math.isnan(run.history[0].loss)
    assert run.entry.accuracy is None


def test_earlier_versions_do_not_say_the_kernels() -> None:
    document = json.loads(run_to_json(ONE))
    del document["kernels"]
    assert run_from_json(json.dumps(document)) == replace(ONE, kernels=None)


def test_histories_with_other_metrics() -> None:
    metrics = (MetricRecord("mae", "low"), MetricRecord("r2"))
    row = ROW._replace(metrics={"mae": 1.5, "r2": 0.5})
    run = replace(ONE, metrics=metrics, history=(row,))
    text = run_to_json(run)
    assert json.loads(text)["history"] == [[0, 7.0, 1, 3, 64, 128, 2.5, 1.5, 0.5, 0.0, 0.0, 3]]
    assert run_from_json(text) == run
