"""Learning-rate schedules: factors on the step sizes of jobs. NumPy only.

A job keeps the rate of its beginning, since a lane has one rate per job.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Annotated, Literal, TypeAlias

import numpy as np
from pydantic import AfterValidator

from favano.errors import require
from favano.types import Floats

RateOver: TypeAlias = Literal["time", "steps"]

_RULE = (
    "need constant, linear[:END], cosine[:END], or steps:FACTOR:AT[:AT...]; END and FACTOR are "
    "0..1 times the rate, AT are shares of the schedule's length in order"
)


@dataclass(frozen=True)
class Decay:
    """From 1 to `end` on a line or on half a wave of the cosine."""

    end: float
    wave: bool

    def __call__(self, share: Floats) -> Floats:
        """The factor at each share of the schedule's length."""
        fallen = (1.0 - np.cos(np.pi * share)) / 2.0 if self.wave else share
        return np.asarray(1.0 - (1.0 - self.end) * fallen)


@dataclass(frozen=True)
class Stairs:
    """Times `factor` at each of these shares of the schedule's length."""

    factor: float
    at: tuple[float, ...]

    def __call__(self, share: Floats) -> Floats:
        """The factor at each share of the schedule's length."""
        return np.asarray(self.factor ** np.searchsorted(self.at, share, side="right"))


RateSchedule: TypeAlias = Decay | Stairs


@cache
def parse_rates(text: str) -> RateSchedule:
    """The schedule named on the command line.

    >>> parse_rates("cosine")(np.array([0.0, 0.5, 1.0])).round(3)
    array([1. , 0.5, 0. ])
    >>> parse_rates("steps:0.1:0.5:0.75")(np.array([0.4, 0.5, 0.9])).round(3)
    array([1.  , 0.1 , 0.01])
    """
    name, *arguments = text.split(":")
    try:
        numbers = [float(argument) for argument in arguments]
    except ValueError:
        numbers = [-1.0]
    shares = all(0 <= number <= 1 for number in numbers)
    known = {
        "constant": not numbers,
        "linear": len(numbers) < 2,
        "cosine": len(numbers) < 2,
        "steps": len(numbers) > 1 and numbers[1:] == sorted(numbers[1:]),
    }
    require(shares and known.get(name, False), "rate_schedule", text, _RULE)
    if name == "steps":
        return Stairs(numbers[0], tuple(numbers[1:]))
    end = 1.0 if name == "constant" else (numbers or [0.0])[0]
    return Decay(end, name == "cosine")


def rate_factors(schedule: RateSchedule, place: Floats, length: float, warm_up: float) -> Floats:
    """Factors at places of a schedule of this length: times, or numbers of steps.

    The rate grows on a line within `warm_up`, as (t + 1) / (warm_up + 1). It is never 0, since a
    job that begins at 0 would then train nothing. Over time, the 1 is one unit of the clock.

    >>> rate_factors(parse_rates("linear"), np.array([0.0, 4.0, 9.0, 50.0]), 100.0, 9.0).round(3)
    array([0.1 , 0.48, 0.91, 0.5 ])
    """
    warm = np.minimum((place + 1.0) / (warm_up + 1.0), 1.0)
    return np.asarray(warm * schedule(np.minimum(place / length, 1.0)))


def _checked(text: str) -> str:
    parse_rates(text)
    return text


RateRule = Annotated[str, AfterValidator(_checked)]
