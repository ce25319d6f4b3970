"""Runs a specification, seed after seed, and keeps what was measured."""

from __future__ import annotations

from dataclasses import dataclass, field
from time import perf_counter
from typing import Literal, TypedDict

import numpy as np
from torch import Tensor, nn

from favano.data import BatchStream, check_parts, split
from favano.engine import (
    Observation,
    Recorder,
    Replay,
    evaluation_times,
    live_models,
    simulate,
)
from favano.errors import NonFiniteUpdate
from favano.experiments.build import make_algorithm, make_fleet, make_schedule, step_sizes
from favano.experiments.presets import resolve
from favano.experiments.progress import Progress, Silence
from favano.experiments.samples import ModelFactory, Samples, initial_module
from favano.experiments.spec import Spec, given
from favano.metrics import Evaluator, Row, Score
from favano.schedule import Schedule
from favano.timing import Fleet
from favano.training import FlatModel, LocalRule, LoopTrainer, Task, check_fit

Status = Literal["complete", "partial"]


class RunRecord(TypedDict):
    """The end of one seed's run, as the JSON documents have it."""

    algorithm: str
    seed: int
    accuracy: float
    loss: float
    variance: float
    time: float
    server_steps: int
    local_steps: int
    bits_up: int
    bits_down: int
    wall_seconds: float
    mean_model_accuracy: float
    mean_model_loss: float
    refused_updates: int


@dataclass
class Result:
    """What a specification gave: the history of all seeds, the last rows, the final models."""

    spec: Spec
    status: Status = "complete"
    rows: list[Row] = field(default_factory=list)
    runs: list[RunRecord] = field(default_factory=list)
    models: dict[int, dict[str, Tensor]] = field(default_factory=dict)
    error: NonFiniteUpdate | None = None  # what stopped the run, if something did

    @property
    def accuracy(self) -> list[float]:
        """Final accuracy of each seed."""
        return [run["accuracy"] for run in self.runs]


@dataclass(frozen=True)
class Planned:
    """One seed, planned but not trained."""

    seed: int
    fleet: Fleet
    schedule: Schedule


def plan_seeds(spec: Spec) -> list[Planned]:
    """The schedules of all seeds. Everything that can be refused without data is refused here."""
    planned = []
    for seed in range(spec.seed, spec.seed + spec.seeds):
        fleet = make_fleet(spec, seed)
        algorithm = make_algorithm(spec, fleet)
        planned.append(Planned(seed, fleet, make_schedule(spec, fleet, algorithm, seed)))
    return planned


def run(
    spec: Spec,
    samples: Samples,
    model: nn.Module | ModelFactory,
    *,
    progress: Progress | None = None,
) -> Result:
    """Run every seed. Ctrl-C or NaN ends it early: what was measured is kept, marked partial."""
    spec = resolve(spec)
    planned = plan_seeds(spec)
    watch = progress or Silence()
    result = Result(spec)
    total = sum(int(one.schedule.steps[: one.schedule.jobs].sum()) for one in planned)
    watch.begin(spec.algorithm, total)
    try:
        for one in planned:
            _run_seed(result, one, samples, model, watch)
    except KeyboardInterrupt:
        result.status = "partial"
    except NonFiniteUpdate as error:
        result.status, result.error = "partial", error
    finally:
        watch.end()
    return result


def _run_seed(
    result: Result,
    planned: Planned,
    samples: Samples,
    model: nn.Module | ModelFactory,
    watch: Progress,
) -> None:
    spec, schedule, seed = result.spec, planned.schedule, planned.seed
    began = perf_counter()
    parts = split(samples.host_labels, given(spec.clients), given(spec.split), seed)
    check_parts(parts, samples.host_labels, samples.classes, how=given(spec.split))
    sizes = np.array([len(part) for part in parts], dtype=np.float64)
    algorithm = make_algorithm(spec, planned.fleet, sizes)
    flat = FlatModel(initial_module(model, seed), device=samples.labels.device)
    task = Task(
        features=samples.features,
        labels=samples.labels,
        batches=BatchStream(
            parts, given(spec.batch_size), seed, planned.fleet.streams, spec.batch_order
        ),
        loss=samples.loss,
        preprocessing=samples.preprocessing,
    )
    check_fit(flat, task, samples.classes)
    initial = flat.snapshot()
    evaluate = Evaluator(
        flat,
        samples.test_features,
        samples.test_labels,
        samples.loss,
        samples.calibration() if spec.buffers == "local" else None,
    )
    trainer = LoopTrainer(flat, task, LocalRule())
    replay = Replay(
        algorithm,
        schedule,
        flat.layout,
        step_sizes(spec, schedule, algorithm),
        initial,
        non_finite=spec.non_finite,
        buffers=spec.buffers,
    )
    last_update = float(schedule.time[-1:].sum())
    recorder = Recorder(
        replay,
        seed,
        evaluation_times(given(spec.horizon), given(spec.evaluate_every), last_update),
        evaluate,
        live_models(replay, trainer, planned.fleet, seed) if spec.variance == "live" else None,
    )
    last: Observation | None = None
    try:
        for last in simulate(
            recorder, trainer, lambda version: watch.advance(*_progress(schedule, seed, version))
        ):
            result.rows.append(last.row)
    finally:
        if last is not None:
            wall = perf_counter() - began
            result.runs.append(_record(spec.algorithm, last, evaluate(last.mean), wall))
            result.models[seed] = flat.state_dict(last.server)


def _progress(schedule: Schedule, seed: int, version: int) -> tuple[int, int, float]:
    """Seed, local steps of the update, and simulated time."""
    if version < 0:
        return seed, 0, 0.0
    first, last = np.searchsorted(schedule.visit, [version, version + 1])
    return seed, int(schedule.steps[first:last].sum()), float(schedule.time[version])


def _record(algorithm: str, last: Observation, mean: Score, wall_seconds: float) -> RunRecord:
    row = last.row
    return RunRecord(
        algorithm=algorithm,
        seed=row.seed,
        accuracy=row.accuracy,
        loss=row.loss,
        variance=row.variance,
        time=row.time,
        server_steps=row.server_step,
        local_steps=row.local_steps,
        bits_up=row.bits_up,
        bits_down=row.bits_down,
        wall_seconds=wall_seconds,
        mean_model_accuracy=mean.accuracy,
        mean_model_loss=mean.loss,
        refused_updates=last.refused,
    )
