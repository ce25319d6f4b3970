"""Trackers have what the history has, and can neither stop nor change a run."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import favano
from favano.errors import BadInput
from favano.records import Row
from favano.run import trackers
from tests.run.test_best_model import problem

FLEET = favano.Fleet(clients=6)
KEYS: Any = {
    "selected": 3, "local_steps": 4, "learning_rate": 0.4, "horizon": 105.0,
    "evaluate_every": 35.0, "seeds": 2, "progress": False,
}  # fmt: skip
WRITTEN = ["accuracy", "loss", "variance", "potential", "bits_up", "local_steps"]


def read_scalars(folder: Path) -> dict[str, list[tuple[int, float, float]]]:
    """Step, time and value of each point, by TensorBoard's own reader."""
    reader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    events = reader.EventAccumulator(str(folder))
    events.Reload()
    return {
        tag: [(e.step, e.wall_time, e.value) for e in events.Scalars(tag)]
        for tag in events.Tags()["scalars"]
    }


def expected(rows: list[Row], seed: int, name: str) -> list[tuple[int, float, Any]]:
    mine = [row for row in rows if row.seed == seed]
    return [(r.server_step, r.time, pytest.approx(r.cell(name), rel=1e-6)) for r in mine]


def test_tensorboard_reads_the_history(tmp_path: Path) -> None:
    both = favano.compare(
        ["favano", "fedavg"], problem(), FLEET, track=f"tensorboard:{tmp_path}", **KEYS
    )
    for result in both.results:
        for seed in (0, 1):
            scalars = read_scalars(tmp_path / result.name / f"seed-{seed}")
            for name in WRITTEN:
                assert scalars[name] == expected(result.rows, seed, name), name


def test_a_run_that_goes_on_is_whole_in_its_tracker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was written before the checkpoint is neither lost nor there twice."""
    from favano.run import checkpoints

    monkeypatch.setattr(checkpoints, "_EVERY", 0.0)
    monkeypatch.setattr(checkpoints.Budget, "allows", lambda self, size: True)

    def breaks(row: favano.Evaluation) -> None:
        if row["time"] == 70.0:
            raise KeyboardInterrupt

    def go_on(observer: Any) -> favano.Result:
        return favano.simulate(
            "favano", problem(), FLEET, on_evaluate=observer, checkpoints=tmp_path / "kept",
            track=f"tensorboard:{tmp_path / 'events'}", **{**KEYS, "seeds": 1},
        )  # fmt: skip

    with pytest.raises(favano.Interrupted):
        go_on(breaks)
    told: list[object] = []
    result = go_on(lambda row: told.append(row["time"]))
    assert 0 not in told  # it did go on, and the user's observer is told of the rest alone
    scalars = read_scalars(tmp_path / "events" / "favano" / "seed-0")
    assert scalars["loss"] == expected(result.rows, 0, "loss")


class Kept:
    """What a fake tracker was told, by run."""

    def __init__(self) -> None:
        self.runs: dict[str, list[dict[str, Any]]] = {}
        self.settings: dict[str, dict[str, Any]] = {}
        self.ended: list[str] = []


def fake_wandb(kept: Kept) -> object:
    def init(**options: Any) -> object:
        assert options["mode"] == "offline"
        name = options["name"]
        kept.runs[name], kept.settings[name] = [], options["config"]
        return SimpleNamespace(
            define_metric=lambda pattern, step_metric: None,
            log=kept.runs[name].append,
            finish=lambda: kept.ended.append(name),
        )

    return SimpleNamespace(init=init, Settings=dict)


def fake_mlflow(kept: Kept) -> object:
    def log_batch(run: str, metrics: Any = (), params: Any = ()) -> None:
        kept.settings.setdefault(run, {}).update({p.key: p.value for p in params})
        if metrics:
            step = {"server_step": metrics[0].step}
            kept.runs.setdefault(run, []).append({m.key: m.value for m in metrics} | step)

    def client(tracking_uri: str) -> object:
        assert tracking_uri.startswith("sqlite:////")
        return SimpleNamespace(
            get_experiment_by_name=lambda name: None,
            create_experiment=lambda name, place: "1",
            create_run=lambda number, run_name: SimpleNamespace(
                info=SimpleNamespace(run_id=run_name)
            ),
            log_batch=log_batch,
            set_terminated=kept.ended.append,
        )

    entities = SimpleNamespace(
        Metric=lambda key, value, stamp, step: SimpleNamespace(key=key, value=value, step=step),
        Param=lambda key, value: SimpleNamespace(key=key, value=value),
    )
    return SimpleNamespace(MlflowClient=client, entities=entities)


@pytest.mark.parametrize(("name", "fake"), [("wandb", fake_wandb), ("mlflow", fake_mlflow)])
def test_the_others_get_the_same(
    name: str, fake: Callable[[Kept], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Kept()
    monkeypatch.setitem(sys.modules, name, fake(kept))
    result = favano.simulate("favano", problem(), FLEET, track=f"{name}:{tmp_path / 'x'}", **KEYS)
    assert sorted(kept.ended) == ["favano/seed-0", "favano/seed-1"]
    for seed in (0, 1):
        run = kept.runs[f"favano/seed-{seed}"]
        names = [*WRITTEN, "server_step", "time"]
        mine = [row for row in result.rows if row.seed == seed]
        assert [[told[n] for n in names] for told in run] == [
            [r.cell(n) for n in names] for r in mine
        ]
        settings = kept.settings[f"favano/seed-{seed}"]
        assert (str(settings["learning_rate"]), str(settings["seed"])) == ("0.4", str(seed))


class Failing:
    """A tracked run that fails at some point."""

    def __init__(self, at: str) -> None:
        self.at, self.told = at, 0

    def log(self, values: object, step: int, time: float) -> None:
        self.told += 1
        if self.at == "log" and self.told == 3:
            raise OSError("disk full\nreally")

    def close(self) -> None:
        if self.at == "close":
            raise OSError("disk full\nreally")


@pytest.mark.parametrize("at", ["start", "log", "close"])
def test_a_failing_tracker_changes_no_run_and_is_named_once(
    at: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    made: list[Failing] = []

    class Kind:
        package = "math"

        def __new__(cls, *_: object) -> Any:
            made.append(Failing(at))
            if at == "start":
                raise OSError("disk full\nreally")
            return made[-1]

    monkeypatch.setattr(trackers, "KINDS", {**trackers.KINDS, "wandb": Kind})
    plain = favano.simulate("favano", problem(), FLEET, **KEYS)
    places = [f"wandb:{tmp_path}", f"tensorboard:{tmp_path}"]
    tracked = favano.simulate("favano", problem(), FLEET, track=places, **KEYS)
    assert tracked.rows == plain.rows
    assert tracked.status == "complete"
    (record,) = caplog.records
    said = record.getMessage()
    assert said.startswith(f"track=wandb:{tmp_path} failed (OSError: disk full")
    assert said.endswith("); the runs go on without it")
    assert len(made) == (1 if at == "start" else 2)  # after an error it is asked for nothing more
    assert max(run.told for run in made) <= 4
    assert len(read_scalars(tmp_path / "favano" / "seed-1")["loss"]) == 4  # the other one goes on


def test_a_missing_package_is_named_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    place = f"mlflow:{tmp_path / 'm'}"
    result = favano.simulate("favano", problem(), FLEET, track=place, **KEYS)
    assert result.status == "complete"
    (record,) = caplog.records
    assert record.getMessage().startswith(f"track={place}: mlflow cannot be imported (")
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize("word", ["tensorbord:runs", "tensorboard", "wandb:", ":runs", ""])
def test_unknown_trackers_are_refused(word: str) -> None:
    rule = "need one of tensorboard:DIR, wandb:DIR, mlflow:DIR"
    with pytest.raises(BadInput, match=f"^track={word}: {rule}$"):
        favano.simulate("favano", problem(), FLEET, track=[word], **KEYS)


def test_a_cluster_has_no_trackers() -> None:
    with pytest.raises(BadInput, match=r"^track=wandb:x: listens in this process"):
        favano.simulate("favano", problem(), FLEET, track="wandb:x", cluster="auto", **KEYS)
