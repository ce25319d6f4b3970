"""Engines for runs: as many jobs in parallel as the device and the methods allow."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import chain
from typing import NamedTuple

import torch

from favano.engine import AHEAD, ArrayEngine, Scoring, StackFactory, Step, pooled, replayed
from favano.errors import NonFiniteUpdate
from favano.run.seed_run import SeedRun
from favano.specification.spec import Spec
from favano.training import (
    CannotFork,
    FlatModel,
    LaneMaker,
    Lanes,
    LaneStack,
    LoopTrainer,
    SerialLanes,
    StackLanes,
    WorkerLanes,
    usable_cores,
)

_SHARE_FOR_MODELS = 0.4  # of the GPU memory, for the models that clients hold
_VERSIONS = 2  # server models per run that no client holds
_MARGIN = 0.1  # of the GPU memory, for updates and evaluations


@contextmanager
def engine(
    flat: FlatModel, runs: Sequence[SeedRun], workers: int | None
) -> Iterator[Iterator[Step]]:
    """The moments of all runs: in parallel where possible, the others one update at a time."""
    together = [number for number, one in enumerate(runs) if one.ahead]
    with _side_by_side(flat, [runs[number] for number in together], workers) as steps:
        numbered = (step._replace(run=together[step.run]) for step in steps)
        yield chain(numbered, _one_by_one(runs))


def can_stack(specs: Sequence[Spec]) -> bool:
    """Whether all runs draw batches of one size by epochs, as stacked lanes need."""
    by_epochs = all(spec.problem.batch_order == "epoch" for spec in specs)
    return by_epochs and len({(spec.problem.batch_size, spec.run.precision) for spec in specs}) == 1


@contextmanager
def _side_by_side(
    flat: FlatModel, runs: Sequence[SeedRun], workers: int | None
) -> Iterator[Iterator[Step]]:
    """On a GPU all runs are rows of a stack of models; on a CPU there is one process per core."""
    replays, trainers = [one.replay for one in runs], [one.trainer for one in runs]
    specs = [one.result.spec for one in runs]
    if not runs:
        yield iter(())
    elif flat.vector.device.type == "cuda" and can_stack(specs):
        linear, share = all(_as_arrays(one) for one in runs), _share(flat, runs)
        stacks, precision = 2 if linear else 1, specs[0].run.precision
        maker = LaneMaker(flat, trainers, precision, stacks=stacks, ahead=AHEAD)
        # No variable keeps the stacks, so that smaller ones can replace them if memory is short.
        if linear:
            yield on_arrays(runs, maker.fitting(share.lanes), share, maker.at_most)
        else:
            stacked = StackLanes(maker.fitting(share.lanes).pop(), maker.at_most)
            yield pooled(replays, stacked, at_once=2 * stacked.capacity)
    else:
        with _host_lanes(flat, trainers, workers) as lanes:
            yield pooled(replays, lanes, at_once=2 * lanes.capacity)


def _as_arrays(one: SeedRun) -> bool:
    """Whether the array engine can handle a run."""
    plain = one.replay.link is None and one.result.spec.run.variance == "start"
    return plain and one.replay.blends


class Share(NamedTuple):
    """How the memory of a GPU is divided."""

    runs: int  # open at a time
    rows: int  # models that these runs hold
    lanes: int  # bytes for everything else


def shared(free: int, model: int, clients: int, runs: int) -> Share:
    """Divide the memory, with a model for each client of each open run.

    Args:
        free: free bytes of the device.
        model: bytes of one model.
        clients: clients per run.
        runs: number of runs.
    """
    most = int(_SHARE_FOR_MODELS * free) // model
    held = clients + _VERSIONS
    open_runs = min(runs, max(1, most // held))
    rows = max(1, min(open_runs * held, most))
    return Share(open_runs, rows, int((1 - _MARGIN) * free) - rows * model)


def _share(flat: FlatModel, runs: Sequence[SeedRun]) -> Share:
    torch.cuda.empty_cache()
    free, _ = torch.cuda.mem_get_info(flat.vector.device)
    clients = max(one.planned.schedule.clients for one in runs)
    return shared(free, flat.vector.numel() * flat.vector.element_size(), clients, len(runs))


def on_arrays(
    runs: Sequence[SeedRun], stacks: Sequence[LaneStack], share: Share, fewer: StackFactory | None
) -> Iterator[Step]:
    """The moments of runs in the array engine, whose models are evaluated together."""
    scoring = Scoring(
        lambda run, moment: runs[run].recorder.due(moment), runs[0].evaluate.measure_all
    )
    rows = share.rows + AHEAD * sum(stack.capacity for stack in stacks)
    replays = [one.replay for one in runs]
    arrays = ArrayEngine(replays, stacks, scoring=scoring, rows=rows, fewer=fewer)
    return arrays.steps(at_once=share.runs)


@contextmanager
def _host_lanes(
    flat: FlatModel, trainers: Sequence[LoopTrainer], workers: int | None
) -> Iterator[Lanes]:
    """One process per core, or this process alone if it has one core or cannot fork."""
    count = usable_cores() if workers is None else workers
    if count <= 1 or flat.vector.device.type != "cpu":
        yield SerialLanes(trainers)
        return
    with ExitStack() as stack:
        lanes: Lanes = SerialLanes(trainers)
        try:
            lanes = stack.enter_context(WorkerLanes(flat, trainers, count))
        except CannotFork as error:
            sys.stderr.write(f"favano: {error}\n")
        yield lanes


def _one_by_one(runs: Sequence[SeedRun]) -> Iterator[Step]:
    """The plain loop, for runs whose jobs cannot be trained ahead."""
    for number, one in enumerate(runs):
        if not one.ahead:
            try:
                for moment in replayed(one.replay, one.trainer):
                    yield Step(number, moment)
            except NonFiniteUpdate as error:
                yield Step(number, error)
