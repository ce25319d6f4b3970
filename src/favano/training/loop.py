"""The plain loop: one client after the other, one step after the other. The reference."""

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
    """Trains each job by itself, as one would write it by hand."""

    model: FlatModel
    task: Task
    rule: LocalRule
    traced: GradientTrace | None = None  # the same gradients, faster
    kernels: Kernels | None = None  # None: those of the process

    def train(self, start: Stack, work: Work) -> Stack:
        """End models of the jobs."""
        jobs = zip(
            start,
            work.client.tolist(),
            work.first_step.tolist(),
            work.steps.tolist(),
            work.rate.tolist(),
            [None] * len(start) if work.drift is None else work.drift,
            strict=True,
        )
        ends = [self._job(*job) for job in jobs]
        return torch.stack(ends) if ends else start

    def run(self, start: Vector, job: Job, drift: Vector | None = None) -> Vector:
        """The end model of one job."""
        return self._job(start, job.client, job.first_step, job.steps, job.rate, drift)

    def _job(
        self,
        start: Vector,
        client: int,
        first_step: int,
        steps: int,
        rate: float,
        drift: Vector | None,
    ) -> Vector:
        model = self.model
        if steps == 0:
            return start
        size, remember = model.layout.size, self.rule.step
        model.load(start[:size])
        model.module.train()
        weights, origin = model.weights, start[: model.layout.parameters]
        memory = tuple(start[size:].view(self.rule.memory, -1)) if remember else ()
        room = self.task.room()
        with torch.no_grad(), using(self.kernels):
            for step in range(first_step, first_step + steps):
                features, labels = self.task.batch(client, step, weights.dtype, room)
                if model.draws is not None:
                    model.draws.set(self.task.key(client, step), weights.device)
                features = arranged(features, self.kernels)
                if self.traced is None or not self.traced.fill(features, labels):
                    plain_gradient(model, self.task.loss, features, labels)
                direction = self.rule.direction(model.gradient, weights, origin, drift)
                if remember is not None:  # a copy, for the gradient is overwritten
                    direction, memory = remember(direction.clone(), memory)
                weights.sub_(direction, alpha=rate)
            return torch.cat([model.snapshot(), *memory]) if memory else model.snapshot()


class SerialLanes:
    """A single lane: a job is trained when its end model is asked for."""

    capacity = 1

    def __init__(self, trainers: Sequence[LoopTrainer]) -> None:
        self._trainers = trainers
        self._waiting: list[tuple[int, Vector, Job, Vector | None]] = []

    def submit(self, ticket: int, start: Vector, job: Job, drift: Vector | None = None) -> None:
        """Begin a job."""
        self._waiting.append((ticket, start, job, drift))

    def collect(self) -> list[FinishedJob]:
        """Train the submitted jobs."""
        jobs, self._waiting = self._waiting, []
        ends = [self._trainers[job.task].run(start, job, drift) for _, start, job, drift in jobs]
        return [
            FinishedJob(ticket, end, finite_rows(end[None])[0])
            for (ticket, *_), end in zip(jobs, ends, strict=True)
        ]
