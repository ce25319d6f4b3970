"""How fast this machine trains: the lanes against the plain loop, and the schedule's parallelism.

Each system trains the same specification for about the same time, in turn. A first, short run of
each warms it up and finds how far it gets; it is not counted. Speeds are those in the middle of a
run: planning, splitting, tracing, captured graphs and the start of processes pass before the first
update, and their time is told apart. Kernels are those of a long run.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import NamedTuple, TypedDict

import torch

from favano.data.catalogue import KNOWN
from favano.data.transforms import to_float
from favano.engine import PlainLoop
from favano.errors import require
from favano.forked_calls import usable_cores
from favano.planning.planned import bind_method, plan_seed, plan_seeds
from favano.quantisation import quantised
from favano.run import samples as sources
from favano.run.assembly import assemble
from favano.run.job_cost import job_cost
from favano.run.run_kernels import long_run_kernels
from favano.run.runner import run_together
from favano.run.samples import ModelFactory, Samples, make_task
from favano.specification.config import spec_keys
from favano.specification.presets import resolve
from favano.specification.spec import Spec, changed, required
from favano.studies.stopwatch import BenchStopwatch
from favano.studies.workload import workload
from favano.timing import JobCost
from favano.training import NO_TRACE, FlatModel, LoopTrainer, TraceReport, Work, default_kernels
from favano.training.worker_lanes import one_thread
from favano.types import Stack

_PILOT = 0.25  # share of a sample's time that a pilot takes at least
_SHORTEST, _LONGEST = 20.0, 1e6  # horizons of a pilot
_FASTEST = 10  # times that a pilot may be longer than the one before


SYNTHETIC = {
    "mnist": (60_000, 1, 28, 28),
    "cifar10": (50_000, 3, 32, 32),
    "tiny-imagenet": (20_000, 3, 64, 64),
}
_BLOCK = 1000  # images that differ
_GOLDEN = (math.sqrt(5) - 1) / 2


class Range(TypedDict):
    """A number measured once per repeat."""

    median: float
    min: float
    max: float


class StartUp(TypedDict):
    """Seconds before the first update of a run."""

    first: float  # in this process, with all that is compiled and loaded once
    warm: Range


class System(TypedDict):
    """One way to train. `shares` are shares of the time:

    outside_training   plain loop: time not spent in local training
    lane_occupancy     lanes: CPU time of the workers / number of workers
    main_process       lanes: CPU time of the process that hands out jobs and makes the updates
    """

    name: str
    workers: int
    horizon: float
    kernels: str | None  # None on a GPU
    traced: list[int]  # lengths of the batches whose gradients were traced
    tracing: float  # seconds that tracing took, the longest of all repeats
    start_up: StartUp | None  # None for a plain loop, which starts at once
    steps_per_second: Range
    images_per_second: Range
    shares: dict[str, Range]


class Bench(TypedDict):
    """The measurements."""

    spec: dict[str, object]  # of the lanes
    repeats: int
    schedule: dict[str, float]  # workload of one sample of the lanes, all seeds together
    systems: list[System]
    ratio: Range  # speed of the lanes / that of the faster plain loop, per repeat


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How much is measured: samples of about `seconds`, `repeats` of each system."""

    seconds: float = 5.0
    repeats: int = 3
    workers: int | None = None  # None: one per core

    def __post_init__(self) -> None:
        require(0 < self.seconds < math.inf, "seconds", self.seconds, "need a positive number")
        require(self.repeats >= 1, "repeats", self.repeats, "need 1 or more")
        require(
            self.workers is None or self.workers >= 1, "workers", self.workers, "need 1 or more"
        )


def bench_samples(
    spec: Spec,
    synthetic: bool | None = None,
    data_dir: Path | None = None,
    on_image: Callable[[int], None] = lambda total: None,
) -> Samples:
    """Synthetic images for data sets known by name, else the data set; one test image."""
    known = spec.problem.dataset in SYNTHETIC
    rule = f"has no synthetic stand-in; need one of {', '.join(SYNTHETIC)}"
    require(known or not synthetic, "dataset", spec.problem.dataset, rule)
    if known and synthetic is not False:
        return synthetic_samples(spec)
    full = sources.load_samples(spec, data_dir, on_image)
    return replace(full, test_features=full.test_features[:1], test_labels=full.test_labels[:1])


def bench(spec: Spec, samples: Samples, effort: Effort, model: ModelFactory | None = None) -> Bench:
    """Measure a complete specification; horizons are chosen to fit the effort.

    `model` makes the network, by default that of the specification.
    """
    make = model or sources.named_model(spec, samples)
    cost = job_cost(spec, samples, make)
    policy = bind_method(spec, spec.run.seed, samples.traits, cost).run_policy
    rule = "its jobs depend on the models, so that the work of a sample is not known"
    require(not policy.grows, "algorithm", spec.method.name, rule)
    rule = "bench compares the plain loop with lanes; remove it"
    require(spec.run.engine == "lanes", "engine", spec.run.engine, rule)
    systems = _systems(spec, samples, make, effort)
    pilots = [_pilot(system, effort.seconds) for system in systems]
    taken = [
        [system.measure(pilot.spec) for system, pilot in zip(systems, pilots, strict=True)]
        for _ in range(effort.repeats)
    ]
    work = [_work(pilot.spec, samples, cost) for pilot in pilots]
    return Bench(
        spec=spec_keys(pilots[-1].spec),
        repeats=effort.repeats,
        schedule=work[-1],
        systems=list(map(_report, systems, pilots, zip(*taken, strict=True), work)),
        ratio=_range([lanes.rate / max(loop.rate for loop in loops) for *loops, lanes in taken]),
    )


class _Sample(NamedTuple):
    """One run of a system."""

    rate: float  # local steps per second
    seconds: float  # of training
    start_up: float | None  # seconds before the first update
    shares: dict[str, float]
    kernels: str | None
    traced: TraceReport = NO_TRACE


class _System(NamedTuple):
    name: str
    workers: int
    spec: Spec
    measure: Callable[[Spec], _Sample]


def _systems(spec: Spec, samples: Samples, model: ModelFactory, effort: Effort) -> list[_System]:
    """The plain loop, with one thread and with one per core, and the lanes."""
    on_cpu, cores = samples.labels.device.type == "cpu", usable_cores()
    spec = resolve(changed(spec, {"kernels": long_run_kernels(spec, samples, model)}))
    alone = resolve(changed(spec, {"seeds": 1}))
    loops = {"plain loop": 1}
    if on_cpu and cores > 1:
        loops[f"plain loop, {cores} threads"] = cores
    workers = (effort.workers or cores) if on_cpu else 1
    return [
        *(
            _System(name, 1, alone, partial(_plain, samples, model, threads))
            for name, threads in loops.items()
        ),
        _System("lanes", workers, spec, partial(_lanes, samples, model, workers)),
    ]


class _Pilot(NamedTuple):
    spec: Spec  # up to the horizon of a sample
    first: _Sample  # which warmed the system up


def _pilot(system: _System, seconds: float) -> _Pilot:
    """Longer and longer runs, until it is clear which horizon takes about `seconds`."""
    horizon, enough, samples = _SHORTEST, _PILOT * seconds, list[_Sample]()
    while True:
        samples.append(last := system.measure(_until(system.spec, horizon)))
        if (last.rate and last.seconds >= enough) or horizon >= _LONGEST:
            break
        horizon *= min(_FASTEST, max(2.0, enough / max(last.seconds, 1e-9)))
    rule = f"no update uses a local step by time {horizon:,.0f}"
    require(last.rate > 0, "slow_mean", system.spec.fleet.slow_mean, rule)
    return _Pilot(
        _until(system.spec, horizon * max(1.0, seconds / max(last.seconds, enough))), samples[0]
    )


def _until(spec: Spec, horizon: float) -> Spec:
    """The specification up to this horizon, evaluated only there; answers with NaN are skipped."""
    keys = {"horizon": horizon, "evaluate_every": horizon, "non_finite": "skip"}
    return resolve(changed(spec, {**keys, "variance": "start"}))


def _lanes(samples: Samples, model: ModelFactory, workers: int, spec: Spec) -> _Sample:
    """Train as `favano run` does."""
    before, watch = os.times(), BenchStopwatch()
    [result] = run_together(
        [spec], samples, model, progress=watch, on_steps=watch.made, workers=workers, audits=False
    )
    if result.interrupted:
        raise KeyboardInterrupt  # the result is partial, which is of no use here
    after, shares = os.times(), dict[str, float]()  # the workers have ended
    if workers > 1:  # else they are this process
        cpu = after.children_user + after.children_system
        cpu -= before.children_user + before.children_system
        shares["lane_occupancy"] = cpu / (workers * watch.seconds)
        shares["main_process"] = watch.cpu / watch.seconds
    start_up, rate, made_with = watch.start_up, watch.steady_rate, result.summary.kernels
    return _Sample(rate, watch.running, start_up, shares, made_with, result.traced or NO_TRACE)


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


def _plain(samples: Samples, model: ModelFactory, threads: int, spec: Spec) -> _Sample:
    """Train one update after the other, one client after the other, in this process."""
    planned = plan_seed(spec, spec.run.seed, samples.traits, job_cost(spec, samples, model))
    network = quantised(sources.initial_module(model, planned.seed), spec.training.recipe)
    flat = FlatModel(network, device=samples.labels.device)
    task, aggregator, rule = assemble(planned, samples, flat, flat.snapshot())
    trainer = _TimedTrainer(LoopTrainer(flat, task, rule))
    with one_thread():
        torch.set_num_threads(threads)
        began = perf_counter()
        for _ in PlainLoop(aggregator, trainer).events():
            pass
        seconds = perf_counter() - began
    kernels = default_kernels() if samples.labels.device.type == "cpu" else None
    shares = {"outside_training": 1 - trainer.seconds / seconds}
    return _Sample(planned.schedule.used_steps / seconds, seconds, None, shares, kernels)


def _work(spec: Spec, samples: Samples, cost: JobCost | None) -> dict[str, float]:
    """The workload of a sample."""
    planned = plan_seeds(spec, samples.traits, cost)
    batches = [make_task(spec, plan.seed, plan.fleet, samples).batches for plan in planned]
    return workload(planned, batches)


def _report(
    system: _System, pilot: _Pilot, taken: Sequence[_Sample], work: dict[str, float]
) -> System:
    first, warm = (
        pilot.first.start_up,
        [sample.start_up for sample in taken if sample.start_up is not None],
    )
    images = work["images"] / work["local_steps"]
    return System(
        name=system.name,
        workers=system.workers,
        horizon=required(pilot.spec.run.horizon),
        kernels=taken[0].kernels,
        traced=list(taken[0].traced.lengths),
        tracing=max(sample.traced.seconds for sample in taken),
        start_up=None if first is None else StartUp(first=first, warm=_range(warm)),
        steps_per_second=_range([sample.rate for sample in taken]),
        images_per_second=_range([images * sample.rate for sample in taken]),
        shares={key: _range([sample.shares[key] for sample in taken]) for key in taken[0].shares},
    )


def _range(values: Sequence[float]) -> Range:
    return Range(median=median(values), min=min(values), max=max(values))


def synthetic_samples(spec: Spec) -> Samples:
    """Images of the data set's shape, and labels in turn."""
    known, (rows, *shape) = KNOWN[spec.problem.dataset], SYNTHETIC[spec.problem.dataset]
    steps = known.normalised if spec.problem.normalise else known.preprocessing
    numbers = torch.arange(_BLOCK * math.prod(shape), dtype=torch.float64)
    pixels = (numbers * _GOLDEN).frac().mul(256).to(torch.uint8).view(_BLOCK, *shape)
    raw = pixels.repeat(rows // _BLOCK, 1, 1, 1).to(sources.check_device(spec.run.device))
    labels = torch.arange(rows, device=raw.device) % known.classes
    (features, later), test = sources.kept(raw, steps), to_float(raw[:1], steps)
    return Samples(features, labels, test, labels[:1], known.classes, later)
