"""The local rule: the direction of a local step, given the gradient."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from favano.errors import require
from favano.training.optimisers import SGD, Count, Form, Memory, Numbers, Optimiser, optimised
from favano.types import Stack

MethodStep: TypeAlias = Callable[[Stack, Memory], tuple[Stack, Memory]]


class Refinement(NamedTuple):
    """What is made of a gradient with its corrections: the method's own step, then the optimiser's.

    Rules that differ only in numbers have the same refinement.
    """

    memory: int  # vectors of the method
    step: MethodStep | None
    form: Form  # of the optimiser

    def __call__(
        self, gradient: Stack, weights: Stack, memory: Memory, count: Count, numbers: Numbers
    ) -> tuple[Stack, Memory]:
        """The direction, and all vectors after the step: the method's, then the optimiser's."""
        own, state = memory[: self.memory], memory[self.memory :]
        if self.step is not None:  # a copy, since the gradient may be overwritten
            gradient, own = self.step(gradient.clone(), own)
        moves, state = optimised(self.form, gradient, weights, state, count, numbers)
        return moves, (*own, *state)


@dataclass(frozen=True)
class LocalRule:
    """w <- w - rate (g + proximal (w - w_start) + drift): plain SGD, with two optional corrections.

    The proximal term is the same for all jobs. A drift correction comes with a job and is constant
    during the job; `corrected` says that jobs have one, so that memory can be reserved. For clients
    of a method with a memory, `step` makes the direction from that sum and from `memory` vectors.
    The optimiser gets what `step` returns. Vectors that a client keeps follow the start and end
    models of a job.
    """

    proximal: float = 0.0
    corrected: bool = False
    memory: int = 0  # vectors of the method, as long as the parameters
    step: MethodStep | None = None
    optimiser: Optimiser = SGD

    def __post_init__(self) -> None:
        require(self.proximal >= 0, "proximal", self.proximal, "need a number >= 0")

    @property
    def plain(self) -> bool:
        """Whether the direction is the gradient, for jobs without a drift correction."""
        return self.proximal == 0 and self.refinement is None

    @property
    def refinement(self) -> Refinement | None:
        """What is made of the corrected gradient; None: it is the direction."""
        if self.step is None and self.optimiser.plain:
            return None
        return Refinement(self.memory, self.step, self.optimiser.form)

    @property
    def kept(self) -> int:
        """Vectors that a client keeps from job to job."""
        return self.memory + self.optimiser.kept

    @property
    def fresh(self) -> int:
        """Vectors that begin with zeros in each job."""
        return self.optimiser.form.vectors - self.optimiser.kept


def direction(
    gradient: Stack,
    weights: Stack,
    start: Stack,
    *,
    pull: float | Stack | None,
    correction: Stack | None,
) -> Stack:
    """The gradient with its corrections, of one model, or of a stack with a pull each, (k, 1)."""
    if pull is not None:
        gradient = gradient + pull * (weights - start)
    return gradient if correction is None else gradient + correction
