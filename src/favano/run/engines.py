"""Lanes for runs: processes on a CPU, stacks of models on a GPU, or the plain loop if asked for."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import groupby
from time import perf_counter
from typing import NamedTuple

import torch

from favano.engine import AHEAD, Engine, PlainLoop, RunEvent, Scoring
from favano.errors import NonFiniteUpdate
from favano.forked_calls import usable_cores
from favano.notices import notice
from favano.run.programs import programmed
from favano.run.seed_run import SeedRun
from favano.training import (
    CannotFork,
    FlatModel,
    LaneMaker,
    Lanes,
    LoopTrainer,
    SerialLanes,
    StackLanes,
    StepsDone,
    WorkerLanes,
    aligned,
    new_stream,
    on_stream,
    wait_for_device,
)
from favano.types import Precision

_SHARE_FOR_MODELS = 0.4  # of the GPU memory, for the models that clients hold
_VERSIONS = 2  # server models per run that no client holds
_MARGIN = 0.1  # of the GPU memory, for updates and evaluations


class Group(NamedTuple):
    """What runs must have in common to share lanes."""

    engine: str
    batch_order: str
    batch_size: int | None
    precision: str


def engine(flat: FlatModel, runs: Sequence[SeedRun], workers: int | None) -> Generator[RunEvent]:
    """The moments of all runs; runs that cannot share lanes follow each other."""
    numbered = sorted(enumerate(runs), key=lambda pair: _group(flat, pair[1]))
    for group, members in groupby(numbered, key=lambda pair: _group(flat, pair[1])):
        numbers, some = zip(*members, strict=True)
        with _steps(flat, some, group, workers) as steps:
            yield from (step._replace(run=numbers[step.run]) for step in steps)


def _group(flat: FlatModel, run: SeedRun) -> Group:
    """On a CPU all lanes are alike."""
    spec = run.result.spec
    if flat.vector.device.type == "cpu":
        return Group(spec.run.engine, "", 0, "")
    problem = spec.problem
    return Group(spec.run.engine, problem.batch_order, problem.batch_size, spec.run.precision)


@contextmanager
def _steps(
    flat: FlatModel, runs: Sequence[SeedRun], group: Group, workers: int | None
) -> Iterator[Iterator[RunEvent]]:
    """The moments of runs that share lanes."""
    trainers = [run.trainer for run in runs]
    if group.engine == "loop":
        yield _one_by_one(runs)
    elif flat.vector.device.type == "cpu":
        with _host_lanes(flat, trainers, workers) as lanes:
            steps = Engine([run.aggregator for run in runs], lanes)
            yield steps.events(at_once=2 * lanes.capacity)
    elif group.batch_order != "epoch":
        notice(
            f"batch_order={group.batch_order} trains one client at a time on a GPU; "
            "epoch trains many at once"
        )
        yield _one_by_one(runs)
    else:
        with on_stream(new_stream(flat.vector.device, urgent=True)):  # for all but launches
            try:
                yield _on_gpu(flat, runs, trainers, runs[0].result.spec.run.precision)
            finally:
                wait_for_device()  # which is the current one only here, if there are several


def _on_gpu(
    flat: FlatModel,
    runs: Sequence[SeedRun],
    trainers: Sequence[LoopTrainer],
    precision: Precision,
) -> Iterator[RunEvent]:
    """Runs as programs where this can be; the others share lanes afterwards."""
    left = yield from programmed(flat, runs, precision, _models_that_fit(flat))
    if not left:
        return
    some = [runs[number] for number in left]
    share = _share(flat, some)
    maker = LaneMaker(flat, [trainers[number] for number in left], precision, ahead=AHEAD)
    # No variable keeps the stack: a smaller one may replace it if memory is short.
    stacked = on_stacks(some, StackLanes(maker.fitting(share.lanes), maker.at_most), share)
    yield from (step._replace(run=left[step.run]) for step in stacked)


def _models_that_fit(flat: FlatModel) -> int:
    """Models for which there is memory, beside updates and evaluations."""
    free, _ = torch.cuda.mem_get_info(flat.vector.device)
    return int(_SHARE_FOR_MODELS * free) // (aligned(len(flat.vector)) * flat.vector.itemsize)


class MemoryShare(NamedTuple):
    """How the memory of a GPU is divided."""

    runs: int  # open at a time
    rows: int  # models that these runs hold
    lanes: int  # bytes for everything else


def shared(free: int, model: int, clients: int, runs: int, memory: int = 0) -> MemoryShare:
    """Divide the memory, with a model and a memory for each client of each open run.

    Args:
        free: free bytes of the device.
        model: bytes of one model.
        clients: clients per run.
        runs: number of runs.
        memory: bytes of what a client keeps beside its model.
    """
    most, held = int(_SHARE_FOR_MODELS * free), clients + _VERSIONS
    open_runs = min(runs, max(1, most // (held * model + clients * memory)))
    rows = max(1, min(open_runs * held, most // model))
    kept = rows * model + open_runs * clients * memory
    return MemoryShare(open_runs, rows, int((1 - _MARGIN) * free) - kept)


def _share(flat: FlatModel, runs: Sequence[SeedRun]) -> MemoryShare:
    torch.cuda.empty_cache()
    free, _ = torch.cuda.mem_get_info(flat.vector.device)
    clients = max(run.planned.schedule.clients for run in runs)
    memory = max(run.aggregator.memory.vectors for run in runs) * flat.weights.nbytes
    return shared(free, flat.vector.nbytes, clients, len(runs), memory)


def on_stacks(runs: Sequence[SeedRun], lanes: StackLanes, share: MemoryShare) -> Iterator[RunEvent]:
    """The moments of runs on a GPU; updates and evaluations of many runs are made together."""

    def due(run: int, version: int) -> bool:
        return runs[run].recorder.due(version)

    def together(run: int, version: int) -> bool:
        seed_run = runs[run]
        alike = seed_run.recorder.live is None and seed_run.judge is seed_run.evaluate
        return alike and due(run, version)

    def time(run: int) -> float:
        return runs[run].recorder.next_time

    scoring = Scoring(due, together, runs[0].evaluate.measure_all, time)
    rows = share.rows + AHEAD * lanes.capacity
    aggregators = [seed_run.aggregator for seed_run in runs]
    stacked = Engine(aggregators, lanes, products=True, scoring=scoring, rows=rows)
    return stacked.events(at_once=share.runs)


@contextmanager
def _host_lanes(
    flat: FlatModel, trainers: Sequence[LoopTrainer], workers: int | None
) -> Iterator[Lanes]:
    """One process per core, or this process alone if it has one core or cannot fork."""
    count = usable_cores() if workers is None else workers
    with ExitStack() as stack:
        lanes: Lanes = SerialLanes(trainers)
        if count > 1:
            try:
                lanes = stack.enter_context(WorkerLanes(flat, trainers, count))
            except CannotFork as error:
                notice(str(error))
        yield lanes


def _one_by_one(runs: Sequence[SeedRun]) -> Iterator[RunEvent]:
    """The plain loop."""
    for number, run in enumerate(runs):
        try:
            for event in PlainLoop(run.aggregator, run.trainer).events():
                yield RunEvent(number, event, StepsDone(event.steps, perf_counter()))
        except NonFiniteUpdate as error:
            yield RunEvent(number, error, StepsDone(0, perf_counter()))
