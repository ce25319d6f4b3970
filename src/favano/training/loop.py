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
from favano.training.task import Task, plain_gradient
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
        model, client = self.model, job.client
        if job.steps == 0:
            return start
        size, remember = model.layout.size, self.rule.step
        model.load(start[:size])
        model.module.train()
        weights, origin = model.weights, start[: model.layout.parameters]
        memory = tuple(start[size:].view(self.rule.memory, -1)) if remember else ()
        batches = self.task.batches_from(client, job.first_step, job.steps, weights.dtype)
        with torch.no_grad(), using(self.kernels):
            for step, (features, labels) in enumerate(batches, job.first_step):
                if model.draws is not None:
                    model.draws.set(self.task.key(client, step), weights.device)
                features = arranged(features, self.kernels)
                if self.traced is None or not self.traced.fill(features, labels):
                    plain_gradient(model, self.task.loss, features, labels)
                direction = self.rule.direction(model.gradient, weights, origin, drift)
                if remember is not None:  # a copy, since the gradient is overwritten
                    direction, memory = remember(direction.clone(), memory)
                weights.sub_(direction, alpha=job.rate)
            return torch.cat([model.snapshot(), *memory]) if memory else model.snapshot()


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
