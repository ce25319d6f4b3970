"""`summary.json`: there and back, and as earlier versions wrote it."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from favano.records import (
    AuditRecord,
    ClientScores,
    MetricRecord,
    Row,
    SpeedScores,
    SpeedShare,
    Summary,
    run_record,
    summary_from_json,
    summary_to_json,
)

ROW = Row(3, 140.0, 20, 61, 640, 1280, 0.5, {"accuracy": 0.75}, 2.0, 1.0, 60)
RUN = replace(
    run_record("favano", ROW, "complete"),
    wall_seconds=1.5,
    mean_model={"accuracy": 0.7, "loss": 0.6},
    decoding_failures=2,
)
SHARE = SpeedShare(name="fast", clients=2, weight=0.5, low=0.4, high=0.6, fair=0.5)
AUDIT = AuditRecord(
    seed=3,
    verdict="shows no significant bias",
    confidence=0.95,
    fair=0.25,
    speeds=(SHARE, replace(SHARE, name="slow")),
    mean_step_time=(1.0, 2.0),
    weight=(0.5, 0.5),
    left_out=("low-precision training",),
)
ONE = Summary(
    status="complete",
    favano="0.1.0",
    command="favano run",
    torch="2.4",
    kernels="native",
    runs=(RUN,),
    audit=AUDIT,
    trace="ab12",
    title="FAVANO",
    source="cd34",
    served=ClientScores(
        seed=3,
        metric="accuracy",
        mean=0.6,
        worst=0.5,
        speeds=(SpeedScores("fast", 1, 0.7, 0.7), SpeedScores("slow", 1, 0.5, 0.5)),
        client=(0, 1),
        score=(0.5, 0.7),
    ),
)


def test_there_and_back() -> None:
    assert summary_from_json(summary_to_json(ONE)) == ONE
    alone = Summary(status="partial", runs=())
    assert summary_from_json(summary_to_json(alone)) == alone


def test_keys_in_their_order() -> None:
    document = json.loads(summary_to_json(ONE))
    assert list(document) == [
        "status", "favano", "command", "torch", "kernels", "processor", "data", "runs", "audit",
        "trace", "title", "source", "served",
    ]  # fmt: skip
    assert list(document["runs"][0]) == [
        "algorithm", "seed", "status", "accuracy", "loss", "variance", "time", "server_steps",
        "local_steps", "bits_up", "bits_down", "wall_seconds", "mean_model_accuracy",
        "mean_model_loss", "refused_updates", "decoding_failures",
    ]  # fmt: skip
    assert list(document["audit"]) == [
        "seed", "verdict", "confidence", "fair", "speeds", "mean_step_time", "weight", "left_out",
    ]  # fmt: skip


def test_null_on_disk_is_nan_in_memory() -> None:
    text = summary_to_json(replace(ONE, runs=(replace(RUN, loss=math.inf, wall_seconds=math.nan),)))
    assert json.loads(text)["runs"][0]["loss"] is None
    (run,) = summary_from_json(text).runs
    assert math.isnan(run.loss)
    assert math.isnan(run.wall_seconds)


@pytest.mark.parametrize("status", ["complete", "diverged", "partial"])
def test_runs_of_earlier_versions_have_the_status_of_the_result(status: str) -> None:
    document = json.loads(summary_to_json(ONE)) | {"status": status}
    for key in ("title", "source", "served"):
        del document[key]
    for key in ("status", "wall_seconds", "decoding_failures"):
        del document["runs"][0][key]
    del document["audit"]["left_out"]
    summary = summary_from_json(json.dumps(document))
    assert summary.runs[0].status == status
    assert summary.runs[0].decoding_failures == 0
    assert summary.audit == replace(AUDIT, left_out=())
    assert (summary.title, summary.source, summary.served) == (None, None, None)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "Invalid JSON"),
        ("[]", "should be an object"),
        ('{"status": "complete"}', "runs"),
        ('{"status": "done", "runs": [{}]}', "'complete', 'stopped', 'diverged' or 'partial'"),
        ('{"status": "complete", "runs": [3]}', "runs.0"),
        ('{"status": "complete", "runs": [{"seed": 3}]}', "runs.0.algorithm"),
    ],
)
def test_damage_is_named(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        summary_from_json(text)


def test_metrics_of_any_name() -> None:
    row = ROW._replace(metrics={"mae": 1.5, "r2": 0.5})
    run = replace(run_record("favano", row, "complete"), mean_model={"mae": 2.0, "loss": 0.6})
    metrics = (MetricRecord("mae", "low", "kW"), MetricRecord("r2"))
    text = summary_to_json(replace(ONE, runs=(run,), metrics=metrics))
    document = json.loads(text)
    assert document["metrics"][0] == {"name": "mae", "best": "low", "unit": "kW"}
    assert list(document["runs"][0])[2:6] == ["status", "mae", "r2", "loss"]
    (again,) = summary_from_json(text).runs
    assert (again.metrics, again.value("mae"), again.value("loss")) == (run.metrics, 1.5, 0.5)
    assert again.mean_model["mae"] == 2.0
    assert math.isnan(again.mean_model["r2"])


def test_energy_is_in_a_summary_only_where_it_is_counted() -> None:
    assert "energy" not in summary_to_json(ONE)
    counted = replace(ONE, runs=(run_record("favano", ROW._replace(energy=4.5), "complete"),))
    assert json.loads(summary_to_json(counted))["runs"][0]["energy"] == 4.5
    assert summary_from_json(summary_to_json(counted)).runs[0].energy == 4.5
