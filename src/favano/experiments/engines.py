"""How runs are driven: as much side by side as the device and the methods allow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain

import torch

from favano.engine import Step, Waves, is_linear, pooled, replayed
from favano.errors import NonFiniteUpdate
from favano.experiments.seed_run import SeedRun
from favano.experiments.spec import Spec
from favano.training import (
    FlatModel,
    Lanes,
    LoopTrainer,
    SerialLanes,
    StackedLanes,
    WorkerLanes,
    lane_stacks,
    usable_cores,
)

_SHARE_FOR_MODELS = 0.4  # of the GPU memory, for the models that clients hold


@contextmanager
def engine(
    flat: FlatModel, runs: Sequence[SeedRun], workers: int | None
) -> Iterator[Iterator[Step]]:
    """All moments of all runs: those that can, side by side, the others one update at a time."""
    together = [number for number, one in enumerate(runs) if one.ahead]
    with _side_by_side(flat, [runs[number] for number in together], workers) as steps:
        numbered = (step._replace(run=together[step.run]) for step in steps)
        yield chain(numbered, _one_by_one(runs))


def can_stack(specs: Sequence[Spec]) -> bool:
    """Whether all runs draw their batches in the one way that stacked lanes know, equally large."""
    by_epochs = all(spec.batch_order == "epoch" for spec in specs)
    return by_epochs and len({(spec.batch_size, spec.precision) for spec in specs}) == 1


@contextmanager
def _side_by_side(
    flat: FlatModel, runs: Sequence[SeedRun], workers: int | None
) -> Iterator[Iterator[Step]]:
    """On a GPU all runs are rows of a stack of models; on a CPU there is one process a core."""
    replays, trainers = [one.replay for one in runs], [one.trainer for one in runs]
    specs = [one.result.spec for one in runs]
    if not runs:
        yield iter(())
    elif flat.vector.device.type == "cuda" and can_stack(specs):
        if all(_as_arrays(one) for one in runs):
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


def _as_arrays(one: SeedRun) -> bool:
    """Whether the jobs, models and updates of a run can be handled as arrays."""
    plain = one.replay.link is None and one.result.spec.variance == "start"
    return plain and is_linear(one.replay.algorithm)


def _runs_at_once(flat: FlatModel, runs: Sequence[SeedRun]) -> int:
    """How many runs may be open if each client of each holds a model of its own."""
    free, _ = torch.cuda.mem_get_info(flat.vector.device)
    clients = max(one.planned.schedule.clients for one in runs)
    model = flat.vector.numel() * flat.vector.element_size()
    return max(1, int(_SHARE_FOR_MODELS * free / ((clients + 1) * model)))


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


def _one_by_one(runs: Sequence[SeedRun]) -> Iterator[Step]:
    """The plain loop, for those runs that cannot do without."""
    for number, one in enumerate(runs):
        if not one.ahead:
            try:
                for moment in replayed(one.replay, one.trainer):
                    yield Step(number, moment)
            except NonFiniteUpdate as error:
                yield Step(number, error)
