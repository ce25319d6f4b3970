"""The plain loop, the reference: one client after the other, one step after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from favano.training.flat import FlatModel
from favano.training.gradient_trace import GradientTrace
from favano.training.kernel_sets import arranged, using
from favano.training.lanes import FinishedJob, Job, Work, finite_rows
from favano.training.local_rule import LocalRule
from favano.training.task import Batch, Task, plain_gradient
from favano.types import Kernels, Stack, Vector


@dataclass(frozen=True, eq=False)
class LoopTrainer:
    """Trains one job after the other."""

    model: FlatModel
    task: Task
    rule: LocalRule
    traced: GradientTrace | None = None  # the same gradients, faster
    kernels: Kernels | None = None  # None: those of the process

    def train(self, start: Stack, work: Work) -> Stack:
        """End models of the jobs."""
        numbers = (work.client, work.first_step, work.steps, work.rate)
        jobs = (Job(0, *job) for job in zip(*(part.tolist() for part in numbers), strict=True))
        drifts = [None] * len(start) if work.drift is None else work.drift
        ends = [self.run(*given) for given in zip(start, jobs, drifts, strict=True)]
        return torch.stack(ends) if ends else start

    def run(self, start: Vector, job: Job, drift: Vector | None = None) -> Vector:
        """The end model of one job."""
        if job.steps == 0:
            return start
        model, size = self.model, self.model.layout.size
        model.load(start[:size])
        model.module.train()
        origin = start[: model.layout.parameters]
        memory = tuple(start[size:].view(self.rule.memory, -1)) if self.rule.step else ()
        plain = self.rule.plain and drift is None and model.draws is None
        with torch.no_grad(), using(self.kernels):
            for first, run in self.task.runs(job.client, job.first_step, job.steps, origin.dtype):
                batches = [(arranged(features, self.kernels), labels) for features, labels in run]
                if plain and self.traced is not None and self.traced.descend(batches, job.rate):
                    continue
                for step, batch in enumerate(batches, first):
                    self._fill_gradient(job.client, step, batch)
                    direction = self.rule.direction(model.gradient, model.weights, origin, drift)
                    if self.rule.step is not None:  # a copy, since the gradient is overwritten
                        direction, memory = self.rule.step(direction.clone(), memory)
                    model.weights.sub_(direction, alpha=job.rate)
            return torch.cat([model.snapshot(), *memory]) if memory else model.snapshot()

    def _fill_gradient(self, client: int, step: int, batch: Batch) -> None:
        """Compute the gradient of one mini-batch."""
        if (draws := self.model.draws) is not None:
            draws.set(self.task.key(client, step), self.model.vector.device)
        if self.traced is None or not self.traced.fill(*batch):
            plain_gradient(self.model, self.task.loss, *batch)


class SerialLanes:
    """A single lane in this process: a job is trained when it is collected."""

    capacity = 1

    def __init__(self, trainers: Sequence[LoopTrainer]) -> None:
        self._trainers = trainers
        self._waiting: list[tuple[int, Vector, Job, Vector | None]] = []

    def submit(self, ticket: int, start: Vector, job: Job, drift: Vector | None = None) -> None:
        """Add a job."""
        self._waiting.append((ticket, start, job, drift))

    def collect(self) -> list[FinishedJob]:
        """Train the jobs that were submitted."""
        jobs, self._waiting, done = self._waiting, [], []
        for ticket, start, job, drift in jobs:
            end = self._trainers[job.task].run(start, job, drift)
            done.append(FinishedJob(ticket, end, finite_rows(end[None])[0]))
        return done
