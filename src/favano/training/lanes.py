"""The interface between engine and training: jobs, and the two kinds of trainers.

A `Trainer` gets the jobs of one update and returns when all are finished. `Lanes` train jobs in
parallel and return them in any order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from favano.types import Floats, Ints, Mask, Stack


class Job(NamedTuple):
    """One job. `task` is the number of its run, whose data it uses."""

    task: int
    client: int
    first_step: int
    steps: int
    rate: float
    steps_before: int = 0  # that the client's optimiser has made since it began with zeros


@dataclass(frozen=True)
class Work:
    """k jobs as arrays."""

    client: Ints  # (k,)
    first_step: Ints  # (k,) position in the client's batch stream
    steps: Ints  # (k,) local steps, possibly 0
    rate: Floats  # (k,) step size
    correction: Stack | None = None  # (k, P) added to every gradient of the job
    steps_before: Ints | None = None  # (k,) that optimisers have made; None: they begin with zeros
    losses: Floats | None = None  # (k,) a trainer fills in the mean loss of each job's steps

    def jobs(self, task: Ints) -> list[Job]:
        """The jobs one by one."""
        before = np.zeros_like(self.steps) if self.steps_before is None else self.steps_before
        columns = (task, self.client, self.first_step, self.steps, self.rate, before)
        return [Job(*job) for job in zip(*(column.tolist() for column in columns), strict=True)]


class StepsDone(NamedTuple):
    """Local steps that lanes have made, and when the last of them ended."""

    steps: int
    at: float  # by `perf_counter`


class Finished(NamedTuple):
    """Jobs that are finished, and their end models; valid until the lanes are used again."""

    jobs: Ints
    ends: Stack
    finite: Mask  # no NaN, no infinity
    steps_done: StepsDone  # since the last collection, also in jobs that are not finished
    losses: Floats | None = None  # mean loss of each job's steps, if it is measured


class Trainer(Protocol):
    """Trains all jobs of an update. All implementations give the same result."""

    def train(self, start: Stack, work: Work) -> Stack:
        """End models of the jobs, (k, size); `start` is not changed."""


class Lanes(Protocol):
    """Trains jobs in parallel. The end model of a job never depends on the other jobs."""

    @property
    def capacity(self) -> int:
        """Number of lanes."""

    @property
    def free(self) -> int:
        """Number of jobs that can be loaded now."""

    def load(self, jobs: Ints, models: Stack, task: Ints, work: Work) -> None:
        """Put jobs into free lanes; each has a number, a start model and at least one step."""

    def launch(self) -> None:
        """Train what is loaded; does not wait."""

    def collect(self) -> Finished | None:
        """Finished jobs; waits for some, if any are under way."""

    def halve(self) -> Ints:
        """Free memory of the device: halve the number of lanes, and return the jobs in them."""
