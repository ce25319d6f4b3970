"""Runs specifications, all their seeds side by side, and keeps what was measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from time import perf_counter
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from favano.algorithms import Algorithm, State
from favano.engine import (
    Moment,
    Recorder,
    Replay,
    Step,
    Waves,
    evaluation_times,
    is_linear,
    live_models,
    pooled,
    replayed,
    spread_of,
)
from favano.errors import NonFiniteUpdate
from favano.experiments.build import make_algorithm, make_fleet, make_schedule, step_sizes
from favano.experiments.presets import resolve
from favano.experiments.progress import Progress, Silence
from favano.experiments.records import RunRecord, make_record
from favano.experiments.samples import ModelFactory, Samples, initial_module, make_task
from favano.experiments.spec import Spec, given
from favano.metrics import Evaluator, Row
from favano.schedule import Schedule
from favano.timing import Fleet
from favano.training import (
    FlatModel,
    Lanes,
    LocalRule,
    LoopTrainer,
    SerialLanes,
    StackedLanes,
    WorkerLanes,
    check_fit,
    lane_stacks,
    one_thread,
    usable_cores,
)
from favano.types import Vector

Status = Literal["complete", "partial"]

_SHARE_FOR_MODELS = 0.4  # of the GPU memory, for the models that clients hold


@dataclass
class Result:
    """What a specification gave: the history of all seeds, the last rows, the final models."""

    spec: Spec
    status: Status = "complete"
    rows: list[Row] = field(default_factory=list)
    runs: list[RunRecord] = field(default_factory=list)
    models: dict[int, dict[str, Tensor]] = field(default_factory=dict)
    error: NonFiniteUpdate | None = None  # what stopped a run, if something did
    first: Planned | None = None  # the plan of the first seed: who trains the model

    @property
    def accuracy(self) -> list[float]:
        """Final accuracy of each seed."""
        return [run["accuracy"] for run in self.runs]


@dataclass(frozen=True)
class Planned:
    """One seed, planned but not trained."""

    seed: int
    fleet: Fleet
    algorithm: Algorithm[State]
    schedule: Schedule


def plan_seeds(spec: Spec) -> list[Planned]:
    """The schedules of all seeds. Everything that can be refused without data is refused here."""
    planned = []
    for seed in range(spec.seed, spec.seed + spec.seeds):
        fleet = make_fleet(spec, seed)
        algorithm = make_algorithm(spec, fleet)
        schedule = make_schedule(spec, fleet, algorithm, seed)
        planned.append(Planned(seed, fleet, algorithm, schedule))
    return planned


def run(
    spec: Spec,
    samples: Samples,
    model: nn.Module | ModelFactory,
    *,
    progress: Progress | None = None,
    workers: int | None = None,
) -> Result:
    """Run every seed of one specification."""
    return run_together([spec], samples, model, progress=progress, workers=workers)[0]


def run_together(
    specs: Sequence[Spec],
    samples: Samples,
    model: nn.Module | ModelFactory,
    *,
    progress: Progress | None = None,
    workers: int | None = None,
) -> list[Result]:
    """Run every seed of several specifications with one network over one set of lanes.

    Ctrl-C ends it early: what was measured is kept, marked partial. A run that meets NaN ends for
    itself. `workers` is the number of processes; by default one a core. It changes no result.
    """
    results = [Result(resolve(spec)) for spec in specs]
    planned = [(result, one) for result in results for one in plan_seeds(result.spec)]
    flat = FlatModel(initial_module(model, planned[0][1].seed), device=samples.labels.device)
    runs = [_Run(result, one, samples, flat, model) for result, one in planned]
    watch = progress or Silence()
    watch.begin(sum(one.schedule.used_steps for _, one in planned))
    try:
        with one_thread(), _engine(flat, runs, workers) as steps:
            for step in steps:
                runs[step.run].hear(step.moment, watch)
    except KeyboardInterrupt:
        for one in runs:
            one.stop()
    finally:
        watch.end()
    for one in runs:
        one.hand_in()
    return results


class _Run:
    """One seed of one specification on its way."""

    def __init__(
        self,
        result: Result,
        planned: Planned,
        samples: Samples,
        flat: FlatModel,
        model: nn.Module | ModelFactory,
    ) -> None:
        spec, schedule, seed = result.spec, planned.schedule, planned.seed
        self.result, self.planned, self.flat = result, planned, flat
        task = make_task(spec, seed, planned.fleet, samples)
        algorithm = planned.algorithm
        if spec.sample_weights:
            sizes = np.array([len(part) for part in task.batches.parts], dtype=np.float64)
            algorithm = make_algorithm(spec, planned.fleet, sizes)
        check_fit(flat, task, samples.classes)
        self.trainer = LoopTrainer(flat, task, LocalRule())
        used = slice(0, schedule.jobs)
        steps = np.bincount(schedule.visit[used], schedule.steps[used], schedule.updates)
        self.steps: list[int] = steps.astype(np.int64).tolist()  # of each update
        self.label = f"{spec.algorithm}, seed {seed}"
        self.replay: Replay[State] = Replay(
            algorithm,
            schedule,
            flat.layout,
            step_sizes(spec, schedule, algorithm),
            _initial_vector(flat, model, seed),
            non_finite=spec.non_finite,
            buffers=spec.buffers,
        )
        calibration = samples.calibration() if spec.buffers == "local" else None
        self.evaluate = Evaluator(
            flat, samples.test_features, samples.test_labels, samples.loss, calibration
        )
        last_update = float(schedule.time[-1:].sum())
        self.recorder = Recorder(
            self.replay,
            seed,
            evaluation_times(given(spec.horizon), given(spec.evaluate_every), last_update),
            self.evaluate.measure,
            spread_of(
                self.replay,
                live_models(self.replay, self.trainer, planned.fleet, seed)
                if spec.variance == "live"
                else None,
            ),
        )
        self.reached = -1  # the last server version
        self.began = self.ended = 0.0

    def hear(self, moment: Moment | NonFiniteUpdate, watch: Progress) -> None:
        """Write down what is to be written down of a moment."""
        if isinstance(moment, NonFiniteUpdate):
            self.result.status, self.result.error = "partial", moment
            return
        version = moment.version
        if version < 0:
            self.began = perf_counter()
        else:
            self.reached = version
            time = float(self.planned.schedule.time[version])
            watch.advance(self.label, self.steps[version], time)
        self.recorder.observe(moment)
        self.ended = perf_counter()

    def stop(self) -> None:
        """Somebody pressed Ctrl-C."""
        if self.reached < self.planned.schedule.updates - 1:
            self.result.status = "partial"

    def hand_in(self) -> None:
        """Put what was measured into the result."""
        rows, last = self.recorder.rows(), self.recorder.last
        self.result.rows += rows
        if self.planned.seed == self.result.spec.seed:
            self.result.first = replace(self.planned, algorithm=self.replay.algorithm)
        if last is not None:
            name, wall = self.result.spec.algorithm, self.ended - self.began
            mean = self.evaluate(last.mean)
            record = make_record(name, rows[-1], mean, refused=last.refused, wall_seconds=wall)
            self.result.runs.append(record)
            self.result.models[self.planned.seed] = self.flat.state_dict(last.server)


@contextmanager
def _engine(flat: FlatModel, runs: Sequence[_Run], workers: int | None) -> Iterator[Iterator[Step]]:
    """All moments of all runs: how they are come by depends on the device and on the runs.

    On a GPU all runs are rows of one stack, with as much done at once as the methods allow; on a
    CPU there is one process a core. Buffers that stay with the clients tie a job to its client's
    last one: such runs go one update after the other.
    """
    replays, trainers = [one.replay for one in runs], [one.trainer for one in runs]
    specs = [one.result.spec for one in runs]
    if any(spec.buffers == "local" for spec in specs):
        yield _one_by_one(runs)
    elif flat.vector.device.type == "cuda" and can_stack(specs):
        as_arrays = all(is_linear(one.replay.algorithm) for one in runs)
        if as_arrays and all(spec.variance == "start" for spec in specs):
            waves = Waves(replays, lane_stacks(flat, trainers, specs[0].precision, stacks=2))
            for number, one in enumerate(runs):
                one.recorder.spread = partial(waves.spread, number)
            yield waves.steps(at_once=_runs_at_once(flat, runs))
        else:
            (stack,) = lane_stacks(flat, trainers, specs[0].precision)
            yield pooled(replays, StackedLanes(stack), at_once=2 * stack.capacity)
    else:
        with _host_lanes(flat, trainers, workers) as lanes:
            yield pooled(replays, lanes, at_once=2 * lanes.capacity)


def _one_by_one(runs: Sequence[_Run]) -> Iterator[Step]:
    """The plain loop."""
    for number, one in enumerate(runs):
        try:
            for moment in replayed(one.replay, one.trainer):
                yield Step(number, moment)
        except NonFiniteUpdate as error:
            yield Step(number, error)


def _runs_at_once(flat: FlatModel, runs: Sequence[_Run]) -> int:
    """How many runs may be open if each client of each holds a model of its own."""
    free, _ = torch.cuda.mem_get_info(flat.vector.device)
    clients = max(one.planned.schedule.clients for one in runs)
    model = flat.vector.numel() * flat.vector.element_size()
    return max(1, int(_SHARE_FOR_MODELS * free / ((clients + 1) * model)))


def can_stack(specs: Sequence[Spec]) -> bool:
    """Whether all runs draw their batches in the one way that stacked lanes know, equally large."""
    by_epochs = all(spec.batch_order == "epoch" for spec in specs)
    return by_epochs and len({spec.batch_size for spec in specs}) == 1


@contextmanager
def _host_lanes(
    flat: FlatModel, trainers: Sequence[LoopTrainer], workers: int | None
) -> Iterator[Lanes]:
    """One process a core; this process alone where there is one core, or no CPU at all."""
    count = usable_cores() if workers is None else workers
    if count <= 1 or flat.vector.device.type != "cpu":
        yield SerialLanes(trainers)
        return
    with WorkerLanes(flat, trainers, count) as lanes:
        yield lanes


def _initial_vector(flat: FlatModel, model: nn.Module | ModelFactory, seed: int) -> Vector:
    module = initial_module(model, seed)
    return FlatModel(module, device=flat.vector.device, dtype=flat.vector.dtype).snapshot()
