"""How much an update counts that was computed from an old model."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Annotated

import numpy as np
from pydantic import AfterValidator

from favano.errors import require
from favano.types import Floats, Ints

_RULE = "need constant, polynomial:A (A >= 0) or hinge:A:B (A > 0, B >= 0)"


@dataclass(frozen=True)
class Polynomial:
    """sigma(tau) = (1 + tau)^(-power); power 0 is the constant weight 1."""

    power: float = 0.5

    def __call__(self, staleness: Ints) -> Floats:
        """Weight of each update."""
        return np.asarray((1.0 + staleness) ** -self.power)


@dataclass(frozen=True)
class Hinge:
    """sigma(tau) = 1 up to the knee, then 1 / (slope (tau - knee) + 1): continuous there."""

    slope: float
    knee: float

    def __call__(self, staleness: Ints) -> Floats:
        """Weight of each update."""
        return np.asarray(1.0 / (self.slope * np.maximum(staleness - self.knee, 0.0) + 1.0))


Staleness = Polynomial | Hinge

SQUARE_ROOT = "polynomial:0.5"  # the weight of the FedBuff and FedAsync papers


@cache
def parse_staleness(text: str) -> Staleness:
    """The weight named on the command line.

    >>> parse_staleness("hinge:10:4")(np.array([0, 4, 5]))
    array([1.        , 1.        , 0.09090909])
    >>> parse_staleness("constant")(np.array([7]))
    array([1.])
    """
    name, *arguments = text.split(":")
    try:
        numbers = [float(argument) for argument in arguments]
    except ValueError:
        numbers = [-1.0]
    known = (
        (name == "constant" and not numbers)
        or (name == "polynomial" and len(numbers) == 1 and numbers[0] >= 0)
        or (name == "hinge" and len(numbers) == 2 and numbers[0] > 0 and numbers[1] >= 0)
    )
    require(known, "staleness", text, _RULE)
    if name == "hinge":
        return Hinge(*numbers)
    return Polynomial(numbers[0] if numbers else 0.0)


def _checked(text: str) -> str:
    parse_staleness(text)
    return text


StalenessRule = Annotated[str, AfterValidator(_checked)]
