"""What a pool asks of those who train: any number of jobs side by side, in any order."""

from __future__ import annotations

from typing import NamedTuple, Protocol, cast

from favano.types import Stack, Vector


class Job(NamedTuple):
    """One piece of local training. `task` says whose data: runs may share the lanes."""

    task: int
    client: int
    first_step: int
    steps: int
    rate: float


class Done(NamedTuple):
    """A finished job."""

    ticket: int
    end: Vector
    finite: bool  # no NaN, no infinity


class Lanes(Protocol):
    """Trains jobs side by side. The end model of a job never depends on what runs beside it."""

    @property
    def capacity(self) -> int:
        """How many jobs it takes at a time."""

    def submit(self, ticket: int, start: Vector, job: Job, drift: Vector | None = None) -> None:
        """Begin a job, with what is to be added to its gradients."""

    def collect(self) -> list[Done]:
        """Finished jobs; waits for one if there is none."""


def finite_rows(models: Stack) -> list[bool]:
    """Which of the models hold neither NaN nor infinity.

    A sum that is finite has none of them in it and is quicker found; huge numbers may add up to
    infinity all the same, so only then each number is looked at.
    """
    if models.sum(dim=1).isfinite().all():
        return [True] * len(models)
    return cast(list[bool], models.isfinite().all(dim=1).tolist())
