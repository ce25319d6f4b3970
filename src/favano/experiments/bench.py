"""How fast this machine trains: the lanes beside the plain loop, and what the schedule allows.

Both systems do the same local steps of the same schedule, turn about. Nothing is planned, split or
scored while the clock runs; starting the worker processes counts.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import NamedTuple, TypedDict

import torch

from favano.algorithms import State
from favano.data import BatchStream, split
from favano.data.catalogue import KNOWN
from favano.data.transforms import to_float
from favano.engine import Replay, replayed
from favano.errors import need
from favano.experiments.build import make_algorithm, step_sizes
from favano.experiments.results import spec_table
from favano.experiments.runner import Planned, plan_seeds, run
from favano.experiments.samples import (
    ModelFactory,
    Samples,
    check_device,
    initial_module,
    load_samples,
    named_model,
)
from favano.experiments.spec import Spec, given
from favano.schedule import Schedule
from favano.training import FlatModel, LocalRule, LoopTrainer, Task, Work, one_thread, usable_cores
from favano.types import Stack

_ROWS = {
    "mnist": (60_000, 1, 28, 28),
    "cifar10": (50_000, 3, 32, 32),
    "tiny-imagenet": (20_000, 3, 64, 64),
}
_BLOCK = 1000  # different synthetic images
_GOLDEN = (math.sqrt(5) - 1) / 2
_PILOT = 0.1  # share of a sample's time, and seconds at most
_SHORTEST, _LONGEST = 20.0, 1e6  # horizons of a pilot


class Range(TypedDict):
    """A number measured once a repeat."""

    median: float
    min: float
    max: float


class Size(TypedDict):
    """What is to be done in one sample, all seeds together; known before any training."""

    horizon: float
    server_steps: int
    jobs: int
    local_steps: int
    images: int
    critical_path: int  # local steps that nothing can make run side by side
    parallelism: float  # local steps / critical path


class System(TypedDict):
    """One way to do it."""

    name: str
    workers: int
    steps_per_second: Range
    images_per_second: Range
    outside_training: Range | None  # plain loop: share of the time not spent in local training
    occupancy: Range | None  # workers: their CPU time / (workers x time)
    main_process: Range | None  # workers: CPU time of the process that hands out and updates / time


class Bench(TypedDict):
    """What was measured."""

    spec: dict[str, object]
    repeats: int
    schedule: Size
    systems: list[System]
    ratio: Range  # lanes / plain loop, within a repeat
    efficiency: Range  # ratio / workers


def critical_path(schedule: Schedule) -> int:
    """The most local steps on a chain of jobs each of which needs the one before.

    path(-1) = 0; path(v) = max(path(v - 1), path(base_j) + steps_j over the jobs j of update v).
    """
    path = [0]  # of version -1, then of each update
    offsets = schedule.offsets.tolist()
    base, steps = schedule.base.tolist(), schedule.steps.tolist()
    for first, last in zip(offsets, offsets[1:], strict=False):
        path.append(max([path[-1], *(path[base[j] + 1] + steps[j] for j in range(first, last))]))
    return path[-1]


def synthetic_samples(spec: Spec) -> Samples:
    """Images of the shape and kind of a known data set, with labels in turn. Nothing is learnt."""
    known, (rows, *shape) = KNOWN[spec.dataset], _ROWS[spec.dataset]
    steps = known.normalised if spec.normalise else known.preprocessing
    numbers = torch.arange(_BLOCK * math.prod(shape), dtype=torch.float64)
    pixels = (numbers * _GOLDEN).frac().mul(256).to(torch.uint8).view(_BLOCK, *shape)
    raw = pixels.repeat(rows // _BLOCK, 1, 1, 1).to(check_device(spec.device))
    labels = torch.arange(rows, device=raw.device) % known.classes
    return Samples(
        features=raw if steps.augments else to_float(raw, steps),
        labels=labels,
        test_features=to_float(raw[:1], steps),
        test_labels=labels[:1],
        classes=known.classes,
        preprocessing=steps if steps.augments else None,
    )


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How much is measured: samples of about `seconds` each, `repeats` of each system."""

    seconds: float = 5.0
    repeats: int = 3
    workers: int | None = None  # None: one a core

    def __post_init__(self) -> None:
        need(0 < self.seconds < math.inf, "seconds", self.seconds, "need a positive number")
        need(self.repeats >= 1, "repeats", self.repeats, "need 1 or more")
        need(self.workers is None or self.workers >= 1, "workers", self.workers, "need 1 or more")


def bench_samples(
    spec: Spec,
    synthetic: bool | None = None,
    data_dir: Path | None = None,
    on_image: Callable[[int], None] = lambda total: None,
) -> Samples:
    """Synthetic images where the data set is known by name, else the data set; one test image."""
    known = spec.dataset in _ROWS
    rule = f"has no synthetic stand-in; need one of {', '.join(_ROWS)}"
    need(known or not synthetic, "dataset", spec.dataset, rule)
    if known and synthetic is not False:
        return synthetic_samples(spec)
    samples = load_samples(spec, data_dir, on_image)
    one = slice(0, 1)
    return replace(
        samples, test_features=samples.test_features[one], test_labels=samples.test_labels[one]
    )


def bench(spec: Spec, samples: Samples, effort: Effort) -> Bench:
    """Measure a complete specification; its horizon is chosen to fit the effort."""
    rule = "runs one update after the other, so there are no lanes to measure"
    need(spec.buffers != "local", "buffers", spec.buffers, rule)
    on_cpu = samples.labels.device.type == "cpu"
    workers = (effort.workers or usable_cores()) if on_cpu else 1
    model = named_model(spec, samples)
    chosen = _chosen(spec, samples, model, effort.seconds)
    planned = plan_seeds(chosen)
    size = _size(chosen, planned, samples)
    plain: list[_Sample] = []
    lanes: list[_Sample] = []
    for repeat in range(effort.repeats):
        for turn in range(2):
            if (repeat + turn) % 2 == 0:
                plain.append(_plain(chosen, planned, samples, model))
            else:
                lanes.append(_lanes(chosen, samples, model, workers))
    ratio = [one.seconds / other.seconds for one, other in zip(plain, lanes, strict=True)]
    return Bench(
        spec=spec_table(chosen),
        repeats=effort.repeats,
        schedule=size,
        systems=[_system("plain loop", 1, plain, size), _system("lanes", workers, lanes, size)],
        ratio=_range(ratio),
        efficiency=_range([value / workers for value in ratio]),
    )


class _Sample(NamedTuple):
    """Seconds of one sample, and shares of them."""

    seconds: float
    outside: float | None = None
    occupancy: float | None = None
    main: float | None = None


class _Stopwatch:
    """Hears of a run's progress: the time up to the last update, before it is scored."""

    def __init__(self) -> None:
        self.steps, self.seconds, self.cpu = 0, 0.0, 0.0
        self._began = self._began_cpu = 0.0

    def begin(self, steps: int) -> None:
        """All is planned and split; the lanes are about to start."""
        self._began, self._began_cpu = perf_counter(), process_time()

    def advance(self, label: str, steps: int, time: float) -> None:
        """An update has been made."""
        self.steps += steps
        self.seconds = perf_counter() - self._began
        self.cpu = process_time() - self._began_cpu

    def end(self) -> None:
        """Nothing."""


@dataclass
class _TimedTrainer:
    """The plain loop and the time it takes."""

    trainer: LoopTrainer
    seconds: float = 0.0

    def train(self, start: Stack, work: Work) -> Stack:
        """End models of the jobs."""
        began = perf_counter()
        end = self.trainer.train(start, work)
        if end.is_cuda:
            torch.cuda.synchronize(end.device)
        self.seconds += perf_counter() - began
        return end


def _chosen(spec: Spec, samples: Samples, model: ModelFactory, seconds: float) -> Spec:
    """The same with a horizon for samples of about so many seconds of the plain loop."""
    horizon, enough = _SHORTEST, min(_PILOT, _PILOT * seconds)
    while True:
        pilot = _timed(_until(spec, horizon), samples, model, workers=1)
        if (pilot.steps and pilot.seconds >= enough) or horizon >= _LONGEST:
            break
        horizon *= 2
    rule = f"no client finishes a step that is used by time {_LONGEST:,.0f}"
    need(pilot.steps > 0, "slow_mean", spec.slow_mean, rule)
    return _until(spec, horizon * max(1.0, seconds / pilot.seconds))


def _until(spec: Spec, horizon: float) -> Spec:
    """Up to this horizon, scored only there; updates that diverge are left out, not fatal."""
    alone = {"variance": "start", "non_finite": "skip"}
    return spec.model_copy(update={"horizon": horizon, "evaluate_every": horizon, **alone})


def _timed(spec: Spec, samples: Samples, model: ModelFactory, *, workers: int) -> _Stopwatch:
    """A run as `favano run` does it, timed."""
    watch = _Stopwatch()
    if run(spec, samples, model, progress=watch, workers=workers).status == "partial":
        raise KeyboardInterrupt  # the only end but the last update: `run` keeps what it has
    return watch


def _lanes(spec: Spec, samples: Samples, model: ModelFactory, workers: int) -> _Sample:
    before = os.times()
    watch = _timed(spec, samples, model, workers=workers)
    after = os.times()  # the workers have been waited for
    user = after.children_user - before.children_user
    system = after.children_system - before.children_system
    if workers == 1:  # trained in this process
        return _Sample(watch.seconds)
    busy = (user + system) / (workers * watch.seconds)
    return _Sample(watch.seconds, occupancy=busy, main=watch.cpu / watch.seconds)


def _plain(
    spec: Spec, planned: Sequence[Planned], samples: Samples, model: ModelFactory
) -> _Sample:
    """One update after the other, one client after the other, in this process."""
    seconds = training = 0.0
    for one in planned:
        flat = FlatModel(initial_module(model, one.seed), device=samples.labels.device)
        algorithm = make_algorithm(spec, one.fleet)
        rates = step_sizes(spec, one.schedule, algorithm)
        replay: Replay[State] = Replay(
            algorithm, one.schedule, flat.layout, rates, flat.snapshot(), non_finite="skip"
        )
        batches = _batches(spec, one, samples)
        task = Task(samples.features, samples.labels, batches, samples.loss, samples.preprocessing)
        trainer = _TimedTrainer(LoopTrainer(flat, task, LocalRule()))
        with one_thread():
            began = perf_counter()
            for _ in replayed(replay, trainer):
                pass
            seconds += perf_counter() - began
        training += trainer.seconds
    return _Sample(seconds, outside=1 - training / seconds)


def _batches(spec: Spec, one: Planned, samples: Samples) -> BatchStream:
    parts = split(samples.host_labels, given(spec.clients), given(spec.split), one.seed)
    size, order = given(spec.batch_size), spec.batch_order
    return BatchStream(parts, size, one.seed, one.fleet.streams, order)


def _size(spec: Spec, planned: Sequence[Planned], samples: Samples) -> Size:
    schedules = [one.schedule for one in planned]
    steps = sum(int(plan.steps[: plan.jobs].sum()) for plan in schedules)
    path = max(critical_path(plan) for plan in schedules)
    return Size(
        horizon=given(spec.horizon),
        server_steps=sum(plan.updates for plan in schedules),
        jobs=sum(plan.jobs for plan in schedules),
        local_steps=steps,
        images=sum(_images(one.schedule, _batches(spec, one, samples)) for one in planned),
        critical_path=path,
        parallelism=steps / path,
    )


def _images(plan: Schedule, batches: BatchStream) -> int:
    """Samples in all mini-batches of the jobs used; the last one of an epoch is short."""
    columns = (plan.client, plan.first_step, plan.steps)
    jobs = zip(*(column[: plan.jobs].tolist() for column in columns), strict=True)
    return sum(
        batches.length(client, step)
        for client, first, steps in jobs
        for step in range(first, first + steps)
    )


def _system(name: str, workers: int, taken: Sequence[_Sample], size: Size) -> System:
    return System(
        name=name,
        workers=workers,
        steps_per_second=_range([size["local_steps"] / one.seconds for one in taken]),
        images_per_second=_range([size["images"] / one.seconds for one in taken]),
        outside_training=_shares([one.outside for one in taken]),
        occupancy=_shares([one.occupancy for one in taken]),
        main_process=_shares([one.main for one in taken]),
    )


def _range(values: Sequence[float]) -> Range:
    return Range(median=median(values), min=min(values), max=max(values))


def _shares(values: Sequence[float | None]) -> Range | None:
    known = [value for value in values if value is not None]
    return _range(known) if known else None
