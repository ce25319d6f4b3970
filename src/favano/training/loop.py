"""The plain loop, the reference: one client after the other, one step after the other."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import chain
from time import perf_counter
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from favano.errors import require
from favano.screening import finite_rows
from favano.training.flat import FlatModel
from favano.training.gradient_trace import GradientTrace, TraceFailed
from favano.training.job_watch import watched
from favano.training.kernel_sets import arranged, using
from favano.training.lanes import Finished, Job, StepsDone, Work
from favano.training.local_rule import LocalRule, Refinement, direction
from favano.training.optimisers import Memory
from favano.training.task import Batch, Task, plain_gradient
from favano.types import Ints, Kernels, Stack, Vector


class _Use(NamedTuple):
    """Which parameters the steps of a job use, where that differs from step to step."""

    names: set[str]  # those of the last step
    steps: Vector  # that have used each number


@dataclass(frozen=True, eq=False)
class LoopTrainer:
    """Trains one job after the other."""

    model: FlatModel
    task: Task
    rule: LocalRule
    traced: GradientTrace | None = None  # the same gradients, faster
    kernels: Kernels | None = None  # None: those of the process
    measures_loss: bool = False  # whether lanes tell the mean loss of each job; without a trace

    def __post_init__(self) -> None:
        counts = self.rule.optimiser.kept and self.rule.optimiser.name != "sgd"
        rule = "counts steps per client, but this network uses some parameters in some steps alone"
        require(not (counts and self.model.use_varies), "optimiser_state", "kept", rule)

    @property
    def width(self) -> int:
        """Numbers in a start or end model: the model and the client's memory."""
        layout = self.model.layout
        return layout.size + self.rule.kept * layout.parameters

    def train(self, start: Stack, work: Work) -> Stack:
        """End models of the jobs."""
        jobs = work.jobs(np.zeros_like(work.client))
        corrections = [None] * len(start) if work.correction is None else work.correction
        ends, means = [], []
        for begin, job, correction in zip(start, jobs, corrections, strict=True):
            losses = None if work.losses is None else list[Tensor]()
            ends.append(self.run(begin, job, correction, losses=losses))
            means.append(mean_loss(losses or ()))
        if work.losses is not None:
            work.losses[:] = means
        return torch.stack(ends) if ends else start

    def run(
        self,
        start: Vector,
        job: Job,
        correction: Vector | None = None,
        more: Callable[[], bool] | None = None,
        losses: list[Tensor] | None = None,
    ) -> Vector:
        """The end model of one job; with `more`, it is asked before each step and may end it.

        The loss of every step, before it is made, is added to `losses`. If a trace fails, the job
        is trained again, from its beginning, by autograd.
        """
        if job.steps == 0:
            return start
        with watched(self.model):
            try:
                return self._run(start, job, correction, more, losses)
            except TraceFailed:
                return self._run(start, job, correction, more, losses)

    def _run(
        self,
        start: Vector,
        job: Job,
        correction: Vector | None,
        more: Callable[[], bool] | None,
        losses: list[Tensor] | None,
    ) -> Vector:
        model, size, refined = self.model, self.model.layout.size, self.rule.refinement
        model.load(start[:size])
        model.module.train()
        weights, origin = model.weights, start[: model.layout.parameters]
        pull = self.rule.proximal or None
        memory = () if refined is None else self._memory(start[size:])
        plain = self.rule.plain and correction is None and model.draws is None and losses is None
        traced = self.traced if plain else None
        step, varies = job.first_step, refined is not None and model.use_varies
        noting = model.noting_use() if varies else nullcontext()
        with torch.no_grad(), using(self.kernels), noting as names:
            use = None if names is None else _Use(names, torch.zeros_like(weights))
            for run in self._runs(job, more):
                batches = [(arranged(features, self.kernels), labels) for features, labels in run]
                if traced is None or not traced.descend(batches, job.rate):
                    for place, batch in enumerate(batches, step):
                        self._fill_gradient(job.client, place, batch, use, losses)
                        moves = direction(
                            model.gradient, weights, origin, pull=pull, correction=correction
                        )
                        if refined is not None:
                            count = job.steps_before + place - job.first_step + 1
                            moves, memory = self._refined(refined, moves, memory, count, use)
                        weights.sub_(moves, alpha=job.rate)
                step += len(batches)
            kept = memory[: self.rule.kept]
            return torch.cat([model.snapshot(), *kept]) if kept else model.snapshot()

    def _runs(self, job: Job, more: Callable[[], bool] | None) -> Iterator[list[Batch]]:
        """The job's mini-batches in lists of one length; one by one if `more` may end it."""
        runs = self.task.runs(job.client, job.first_step, job.steps, self.model.weights.dtype)
        if more is None:
            yield from runs
            return
        for batch in chain.from_iterable(runs):
            if not more():
                return
            yield [batch]

    def _memory(self, kept: Vector) -> Memory:
        """The client's vectors at the beginning of a job."""
        parameters = self.model.layout.parameters
        fresh = kept.new_zeros(self.rule.fresh, parameters)
        return (*kept.view(-1, parameters), *fresh)

    def _refined(
        self, refined: Refinement, moves: Vector, memory: Memory, count: int, use: _Use | None
    ) -> tuple[Vector, Memory]:
        """The direction, and the vectors after the step.

        As in `torch.optim`, a parameter without a gradient stays as it is, with its vectors.
        """
        decaying, numbers = self.model.decaying(self.model.weights), self.rule.optimiser.numbers
        if use is None:
            return refined(moves, decaying, memory, count, numbers)
        here = self.model.numbers_of(use.names)
        use.steps.add_(here)
        moves, renewed = refined(moves, decaying, memory, use.steps.clamp(min=1), numbers)
        pairs = zip(renewed, memory, strict=True)
        return moves.where(here, 0), tuple(new.where(here, old) for new, old in pairs)

    def _fill_gradient(
        self, client: int, step: int, batch: Batch, use: _Use | None, losses: list[Tensor] | None
    ) -> None:
        """Compute the gradient of one mini-batch."""
        if use is not None:
            use.names.clear()
        if (draws := self.model.draws) is not None:
            draws.set(self.task.key(client, step), self.model.vector.device)
        if losses is not None:
            losses.append(plain_gradient(self.model, self.task.loss, *batch))
        elif use is not None or self.traced is None or not self.traced.fill(*batch):
            plain_gradient(self.model, self.task.loss, *batch)


def mean_loss(losses: Sequence[Tensor]) -> float:
    """The mean of single losses; NaN if there are none."""
    return float(torch.stack([*losses]).double().mean()) if losses else math.nan


class SerialLanes:
    """A single lane in this process: a job is trained when it is collected."""

    capacity = 1

    def __init__(self, trainers: Sequence[LoopTrainer]) -> None:
        self._trainers = trainers
        self._loaded: tuple[Ints, Stack, Ints, Work] | None = None

    @property
    def free(self) -> int:
        """Number of jobs that can be loaded now."""
        return 1 if self._loaded is None else 0

    def load(self, jobs: Ints, models: Stack, task: Ints, work: Work) -> None:
        """Keep one job."""
        self._loaded = jobs, models, task, work

    def launch(self) -> None:
        """Training begins when the job is collected."""

    def collect(self) -> Finished | None:
        """Train the job."""
        if self._loaded is None:
            return None
        (jobs, models, task, work), self._loaded = self._loaded, None
        trainer = self._trainers[int(task[0])]
        if trainer.measures_loss:
            work = replace(work, losses=np.empty(len(jobs)))
        end = trainer.train(models[:, : trainer.width], work)
        done = StepsDone(int(work.steps.sum()), perf_counter())
        return Finished(jobs, end, np.array(finite_rows(end)), done, work.losses)

    def halve(self) -> Ints:
        """A CPU has no lanes to give up."""
        raise MemoryError
