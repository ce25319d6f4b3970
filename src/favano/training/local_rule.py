"""The local rule: the direction of a local step, given the gradient."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from favano.errors import need
from favano.types import Stack, Vector

Memory: TypeAlias = tuple[Stack, ...]


@dataclass(frozen=True)
class LocalRule:
    """w <- w - rate (g + proximal (w - w_start) + drift): plain SGD, with two optional corrections.

    The proximal term is the same for all jobs. A drift correction comes with a job and is constant
    during the job; `corrected` says that jobs have one, so that memory can be reserved. For clients
    with a memory, `step` makes the direction from that sum and from `memory` vectors, which follow
    the start and end models of a job.
    """

    proximal: float = 0.0
    corrected: bool = False
    memory: int = 0  # vectors as long as the parameters
    step: Callable[[Stack, Memory], tuple[Stack, Memory]] | None = None

    def __post_init__(self) -> None:
        need(self.proximal >= 0, "proximal", self.proximal, "need a number >= 0")

    @property
    def plain(self) -> bool:
        """Whether the direction is the gradient, for jobs without a drift correction."""
        return self.proximal == 0 and self.step is None

    def direction(
        self, gradient: Vector, weights: Vector, start: Vector, drift: Vector | None = None
    ) -> Vector:
        """The difference that is subtracted from the weights, divided by the step size."""
        return direction(gradient, weights, start, pull=self.proximal or None, drift=drift)


def direction(
    gradient: Stack,
    weights: Stack,
    start: Stack,
    *,
    pull: float | Stack | None,
    drift: Stack | None,
) -> Stack:
    """The same for one model, or for a stack of models with a pull each, (k, 1)."""
    if pull is not None:
        gradient = gradient + pull * (weights - start)
    return gradient if drift is None else gradient + drift
