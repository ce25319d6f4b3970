"""The interface between engine and training: jobs, and the two kinds of trainers.

A `Trainer` gets the jobs of one update and returns when all are finished. `Lanes` train jobs in
parallel and return them in any order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol, cast

from favano.types import Floats, Ints, Stack, Vector


class Job(NamedTuple):
    """A job for lanes. `task` is the number of its run, whose data it uses."""

    task: int
    client: int
    first_step: int
    steps: int
    rate: float


@dataclass(frozen=True)
class Work:
    """k jobs as arrays."""

    client: Ints  # (k,)
    first_step: Ints  # (k,) position in the client's batch stream
    steps: Ints  # (k,) local steps, possibly 0
    rate: Floats  # (k,) step size
    drift: Stack | None = None  # (k, P) added to every gradient of the job


class FinishedJob(NamedTuple):
    """The end model of a job, by the ticket it was submitted with."""

    ticket: int
    end: Vector
    finite: bool  # no NaN, no infinity


class Trainer(Protocol):
    """Trains all jobs of an update. All implementations give the same result."""

    def train(self, start: Stack, work: Work) -> Stack:
        """End models of the jobs, (k, size); `start` is not changed."""


class Lanes(Protocol):
    """Trains jobs in parallel. The end model of a job never depends on the other jobs."""

    @property
    def capacity(self) -> int:
        """The most jobs that may be submitted and not yet collected."""

    def submit(self, ticket: int, start: Vector, job: Job, drift: Vector | None = None) -> None:
        """Begin a job; `drift`, if given, is added to each of its gradients."""

    def collect(self) -> list[FinishedJob]:
        """Finished jobs; waits for one if there is none."""


def finite_rows(models: Stack) -> list[bool]:
    """Which models have neither NaN nor infinity.

    If the sum of a model is finite, so is each number in it, and a sum is fast. Very large numbers
    may add up to infinity, so if a sum is not finite, every number is checked.
    """
    if models.sum(dim=1).isfinite().all():
        return [True] * len(models)
    return cast(list[bool], models.isfinite().all(dim=1).tolist())
