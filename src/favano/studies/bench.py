"""How fast this machine trains: the lanes against the plain loop, and the schedule's parallelism.

All systems do the same local steps of the same schedule, in turn. Planning, splitting, evaluation,
the choice of kernels and tracing are not timed; starting the worker processes is. Kernels are those
of a long run.
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

from favano.engine import PlainLoop
from favano.errors import need
from favano.planning.planned import Planned, plan_seeds
from favano.quantisation import quantised
from favano.run import samples as sources
from favano.run.assembly import assemble
from favano.run.run_kernels import long_run_kernels
from favano.run.runner import run
from favano.run.samples import ModelFactory, Samples, make_task
from favano.specification.config import spec_keys
from favano.specification.presets import resolve
from favano.specification.spec import Spec, changed
from favano.studies.synthetic import SYNTHETIC, synthetic_samples
from favano.studies.workload import workload
from favano.training import NO_TRACE, FlatModel, LoopTrainer, TraceReport, Work, default_kernels
from favano.training.worker_lanes import one_thread, usable_cores
from favano.types import Kernels, Stack

_PILOT = 0.1  # share of a sample's time, and seconds at most
_SHORTEST, _LONGEST = 20.0, 1e6  # horizons of a pilot


class Range(TypedDict):
    """A number measured once per repeat."""

    median: float
    min: float
    max: float


class System(TypedDict):
    """One way to train. `shares` are shares of the time:

    outside_training   plain loop: time not spent in local training
    lane_occupancy     lanes: CPU time of the workers / number of workers
    main_process       lanes: CPU time of the process that hands out jobs and makes the updates
    """

    name: str
    workers: int
    kernels: Kernels | None  # None on a GPU
    traced: list[int]  # lengths of the batches whose gradients were traced
    tracing: float  # seconds that tracing took, the longest of all repeats
    steps_per_second: Range
    images_per_second: Range
    shares: dict[str, Range]


class Bench(TypedDict):
    """The measurements."""

    spec: dict[str, object]
    repeats: int
    schedule: dict[str, float]  # workload of one sample, all seeds together
    systems: list[System]
    ratio: Range  # speed of the lanes / that of the faster plain loop, per repeat


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How much is measured: samples of about `seconds`, `repeats` of each system."""

    seconds: float = 5.0
    repeats: int = 3
    workers: int | None = None  # None: one per core

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
    """Synthetic images for data sets known by name, else the data set; one test image."""
    known = spec.problem.dataset in SYNTHETIC
    rule = f"has no synthetic stand-in; need one of {', '.join(SYNTHETIC)}"
    need(known or not synthetic, "dataset", spec.problem.dataset, rule)
    if known and synthetic is not False:
        return synthetic_samples(spec)
    full = sources.load_samples(spec, data_dir, on_image)
    return replace(full, test_features=full.test_features[:1], test_labels=full.test_labels[:1])


def bench(spec: Spec, samples: Samples, effort: Effort) -> Bench:
    """Measure a complete specification; its horizon is chosen to fit the effort."""
    rule = "such runs do not use lanes, so there is nothing to compare"
    need(spec.run.buffers != "local", "buffers", spec.run.buffers, rule)
    need(not spec.method.grows, "algorithm", spec.method.name, rule)
    workers = (effort.workers or usable_cores()) if samples.labels.device.type == "cpu" else 1
    model = sources.named_model(spec, samples)
    spec = resolve(changed(spec, {"kernels": long_run_kernels(spec, samples, model)}))
    chosen = _with_horizon(spec, samples, model, effort.seconds)
    planned = plan_seeds(chosen, samples.host_labels)
    tasks = [make_task(chosen, one.seed, one.fleet, samples) for one in planned]
    work = workload(planned, [task.batches for task in tasks])
    loops = {"plain loop": 1}
    if samples.labels.device.type == "cpu" and (cores := usable_cores()) > 1:
        loops[f"plain loop, {cores} threads"] = cores
    taken: dict[str, list[_Sample]] = {name: [] for name in (*loops, "lanes")}
    ratios = []
    for _ in range(effort.repeats):
        for name, threads in loops.items():
            taken[name].append(_plain(chosen, planned, samples, model, threads))
        taken["lanes"].append(lanes := _lanes(chosen, samples, model, workers))
        ratios.append(min(taken[name][-1].seconds for name in loops) / lanes.seconds)
    return Bench(
        spec=spec_keys(chosen),
        repeats=effort.repeats,
        schedule=work,
        systems=[
            _system(name, workers if name == "lanes" else 1, sampled, work)
            for name, sampled in taken.items()
        ],
        ratio=_range(ratios),
    )


class _Sample(NamedTuple):
    seconds: float
    shares: dict[str, float]
    kernels: Kernels | None
    traced: TraceReport = NO_TRACE


@dataclass
class _Stopwatch:
    """Measures the time from the start of the lanes to the last update, before its evaluation."""

    seconds: float = 0.0
    cpu: float = 0.0
    began: tuple[float, float] = (0.0, 0.0)

    def begin(self, steps: int) -> None:
        self.began = perf_counter(), process_time()

    def advance(self, label: str, steps: int, time: float) -> None:
        self.seconds, self.cpu = perf_counter() - self.began[0], process_time() - self.began[1]

    def end(self) -> None: ...


@dataclass
class _TimedTrainer:
    """The plain loop and the time it takes."""

    trainer: LoopTrainer
    seconds: float = 0.0

    def train(self, start: Stack, work: Work) -> Stack:
        began = perf_counter()
        end = self.trainer.train(start, work)
        if end.is_cuda:
            torch.cuda.synchronize(end.device)
        self.seconds += perf_counter() - began
        return end


def _with_horizon(spec: Spec, samples: Samples, model: ModelFactory, seconds: float) -> Spec:
    """The specification with a horizon that takes the plain loop about `seconds`."""
    horizon, enough = _SHORTEST, min(_PILOT, _PILOT * seconds)
    while True:
        planned = plan_seeds(_until(spec, horizon), samples.host_labels)
        steps = sum(one.schedule.used_steps for one in planned)
        taken = _plain(_until(spec, horizon), planned, samples, model).seconds
        if (steps and taken >= enough) or horizon >= _LONGEST:
            break
        horizon *= 2
    rule = f"no update uses a local step by time {horizon:,.0f}"
    need(steps > 0, "slow_mean", spec.fleet.slow_mean, rule)
    return _until(spec, horizon * max(1.0, seconds / taken))


def _until(spec: Spec, horizon: float) -> Spec:
    """The specification up to this horizon, evaluated only there; answers with NaN are skipped."""
    keys = {"horizon": horizon, "evaluate_every": horizon, "non_finite": "skip"}
    return resolve(changed(spec, {**keys, "variance": "start"}))


def _lanes(spec: Spec, samples: Samples, model: ModelFactory, workers: int) -> _Sample:
    """Train as `favano run` does."""
    before, watch = os.times(), _Stopwatch()
    result = run(spec, samples, model, progress=watch, workers=workers)
    if result.interrupted:
        raise KeyboardInterrupt  # `run` returns a partial result, which is of no use here
    after = os.times()  # the workers have ended
    if workers == 1:  # trained in this process
        return _Sample(watch.seconds, {}, result.kernels, result.traced)
    cpu = after.children_user + after.children_system
    cpu -= before.children_user + before.children_system
    occupancy, main = cpu / (workers * watch.seconds), watch.cpu / watch.seconds
    shares = {"lane_occupancy": occupancy, "main_process": main}
    return _Sample(watch.seconds, shares, result.kernels, result.traced)


def _plain(
    spec: Spec, plans: Sequence[Planned], samples: Samples, model: ModelFactory, threads: int = 1
) -> _Sample:
    """Train one update after the other, one client after the other, in this process."""
    seconds = training = 0.0
    for one in plans:
        network = quantised(sources.initial_module(model, one.seed), spec.training.recipe)
        flat = FlatModel(network, device=samples.labels.device)
        task, aggregator, rule = assemble(one, samples, flat, model)
        trainer = _TimedTrainer(LoopTrainer(flat, task, rule))
        with one_thread():
            torch.set_num_threads(threads)
            began = perf_counter()
            for _ in PlainLoop(aggregator, trainer).moments():
                pass
            seconds += perf_counter() - began
        training += trainer.seconds
    kernels = default_kernels() if samples.labels.device.type == "cpu" else None
    return _Sample(seconds, {"outside_training": 1 - training / seconds}, kernels)


def _system(name: str, workers: int, taken: list[_Sample], work: dict[str, float]) -> System:
    return System(
        name=name,
        workers=workers,
        kernels=taken[0].kernels,
        traced=list(taken[0].traced.lengths),
        tracing=max(one.traced.seconds for one in taken),
        steps_per_second=_range([work["local_steps"] / one.seconds for one in taken]),
        images_per_second=_range([work["images"] / one.seconds for one in taken]),
        shares={key: _range([one.shares[key] for one in taken]) for key in taken[0].shares},
    )


def _range(values: Sequence[float]) -> Range:
    return Range(median=median(values), min=min(values), max=max(values))
