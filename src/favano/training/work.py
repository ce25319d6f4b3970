"""What the engine asks of a trainer: k jobs at a time, each from its own start model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from favano.types import Floats, Ints, Stack


@dataclass(frozen=True)
class Work:
    """k jobs: who trains, which part of its batch stream, and how long its steps are."""

    client: Ints  # (k,)
    first_step: Ints  # (k,) position in the client's batch stream
    steps: Ints  # (k,) local steps to make, possibly 0
    rate: Floats  # (k,) step size
    drift: Stack | None = None  # (k, P) added to every gradient of the job


class Trainer(Protocol):
    """Runs local training. Whatever the implementation, the result is the same."""

    def train(self, start: Stack, work: Work) -> Stack:
        """End models of the jobs, (k, size); `start` stays as it is."""
