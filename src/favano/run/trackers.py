"""Trackers: TensorBoard, Weights & Biases and MLflow, each with files of its own on this machine.

A tracker holds one run per method and seed, with the columns of `history.csv`, which stays the
source of truth.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from time import time_ns
from typing import Any, Final, Protocol

from favano.errors import require
from favano.notices import notice
from favano.records.folder import folder_name
from favano.run.listeners import Listener, check_here
from favano.run.observer import Evaluation
from favano.specification.config import spec_keys
from favano.specification.spec import Spec

_PROJECT: Final = "favano"


class TrackedRun(Protocol):
    """What a tracker keeps of one method and seed."""

    def log(self, values: Mapping[str, float], step: int, time: float) -> None:
        """Write an evaluation after so many server steps, at this simulated time."""

    def close(self) -> None:
        """Finish the run."""


class TensorBoard:
    """Scalars against the server step; its relative time is the simulated time, in seconds."""

    package = "torch.utils.tensorboard"

    def __init__(self, module: Any, folder: Path, run: str, settings: Mapping[str, object]) -> None:
        lines = (f"    {key} = {value}" for key, value in settings.items())
        # What an earlier run wrote there is left out: runs that go on tell all from the start.
        self._writer = module.SummaryWriter(str(folder / run), purge_step=0)
        self._writer.add_text("settings", "\n".join(lines), 0, 0.0)

    def log(self, values: Mapping[str, float], step: int, time: float) -> None:
        """Add a point to each curve."""
        for name, value in values.items():
            self._writer.add_scalar(name, value, step, time)
        self._writer.flush()

    def close(self) -> None:
        """Close the file."""
        self._writer.close()


class WeightsAndBiases:
    """Curves against the simulated time, offline: `wandb sync` sends them if you want."""

    package = "wandb"

    def __init__(self, module: Any, folder: Path, run: str, settings: Mapping[str, object]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._run = module.init(
            project=_PROJECT,
            dir=str(folder),
            name=run,
            group=run.rpartition("/")[0],
            config=dict(settings),
            mode="offline",
            reinit="create_new",
            settings=module.Settings(console="off", silent=True),
        )
        self._run.define_metric("*", step_metric="time")

    def log(self, values: Mapping[str, float], step: int, time: float) -> None:
        """Add a point to each curve."""
        self._run.log({**values, "server_step": step, "time": time})

    def close(self) -> None:
        """Finish the run."""
        self._run.finish()


class MLflow:
    """Metrics against the server step, in a database in the folder."""

    package = "mlflow"

    def __init__(self, module: Any, folder: Path, run: str, settings: Mapping[str, object]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        place = folder.resolve()
        self._entities = module.entities
        self._client = module.MlflowClient(tracking_uri=f"sqlite:///{place / 'mlflow.db'}")
        known = self._client.get_experiment_by_name(_PROJECT)
        artifacts = (place / "artifacts").as_uri()
        number = (
            known.experiment_id if known else self._client.create_experiment(_PROJECT, artifacts)
        )
        self._run = self._client.create_run(number, run_name=run).info.run_id
        parameters = [module.entities.Param(key, str(value)) for key, value in settings.items()]
        self._client.log_batch(self._run, params=parameters)

    def log(self, values: Mapping[str, float], step: int, time: float) -> None:
        """Add a point to each metric."""
        stamp = time_ns() // 1_000_000
        metrics = [
            self._entities.Metric(name, value, stamp, step)
            for name, value in {**values, "time": time}.items()
        ]
        self._client.log_batch(self._run, metrics=metrics)

    def close(self) -> None:
        """Finish the run."""
        self._client.set_terminated(self._run)


KINDS: Final[Mapping[str, type[TensorBoard | WeightsAndBiases | MLflow]]] = {
    "tensorboard": TensorBoard,
    "wandb": WeightsAndBiases,
    "mlflow": MLflow,
}
_NO_NETWORK: Final = {"MLFLOW_DISABLE_TELEMETRY": "true", "WANDB_ERROR_REPORTING": "false"}
_NOT_TRACKED: Final = {"method", "seed", "time", "server_step", "model_digest", "digest"}


class ExperimentTracker:
    """A listener that opens a tracked run when it hears of a method and seed first."""

    def __init__(
        self,
        name: str,
        start: Callable[[str, Mapping[str, object]], TrackedRun],
        settings: Mapping[str, Mapping[str, object]],
    ) -> None:
        self.name, self._start, self._settings = name, start, settings
        self._runs: dict[tuple[str, int], TrackedRun] = {}

    def hear(self, made: Evaluation) -> None:
        """Write an evaluation into its run."""
        cells: Mapping[str, Any] = made
        method, seed = str(cells["method"]), int(cells["seed"])
        if (method, seed) not in self._runs:
            settings = {**self._settings[method], "method": method, "seed": seed}
            self._runs[method, seed] = self._start(f"{folder_name(method)}/seed-{seed}", settings)
        values = {name: float(cells[name]) for name in cells if name not in _NOT_TRACKED}
        self._runs[method, seed].log(values, int(cells["server_step"]), float(cells["time"]))

    def close(self) -> None:
        """Finish all runs."""
        for run in self._runs.values():
            run.close()


def check_trackers(asked: str | Sequence[str] | None, cluster: str | None = None) -> list[str]:
    """The names and folders of trackers; others are refused."""
    words = [asked] if isinstance(asked, str) else list(asked or ())
    for word in words:
        kind, _, folder = word.partition(":")
        known = ", ".join(f"{name}:DIR" for name in KINDS)
        require(kind in KINDS and bool(folder), "track", word, f"need one of {known}")
    check_here("track", ",".join(words), cluster)
    return words


def trackers(words: Sequence[str], specs: Sequence[Spec]) -> list[Listener]:
    """The trackers with these names and folders; without their packages there is a warning."""
    settings = {spec.name: spec_keys(spec) for spec in specs}
    opened: list[Listener] = []
    for word in dict.fromkeys(words):
        name, _, folder = word.partition(":")
        kind = KINDS[name]
        for variable, value in _NO_NETWORK.items():
            os.environ.setdefault(variable, value)
        try:
            module = import_module(kind.package)
        except Exception as error:  # a broken installation must not stop a run either
            notice(f"track={word}: {kind.package} cannot be imported ({error}); runs go on without")
            continue
        opened.append(
            ExperimentTracker(f"track={word}", partial(kind, module, Path(folder)), settings)
        )
    return opened
