"""Robust aggregation: what the server makes of the answers of an update that it does not trust."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import ceil
from typing import Annotated, Literal, TypeAlias

import numpy as np
from pydantic import AfterValidator

from favano.errors import require
from favano.methods.arrays import column
from favano.methods.registry import AnyMethod
from favano.schedule import Buffered, Policy, Polling, Rounds, Windowed
from favano.types import Floats, Ints, Stack

_RULE = "need none, median, trimmed:SHARE (0 < SHARE < 0.5) or clip:NORM (NORM > 0)"
_FEWEST = 3  # answers that have a middle


@dataclass(frozen=True)
class Robust:
    """Limits what one client can do to an update, for any method.

        median     c_i <- median_j c_j, for each parameter by itself
        trimmed    the same with the mean without the largest and smallest SHARE, rounded up
        clip       c_i <- c_i min(1, NORM / |c_i|)

    c_i = k a_i p_i is the contribution of answer i of k as it is applied: p_i is the progress of
    its client, the end model minus the start model, and a_i what the method multiplies it by, after
    reweighting and staleness. So the server model moves by the mean of all c_i. Clients without a
    step have no say in a median or mean. If fewer than three others are left, nobody can tell who
    is right, and none of them moves the model.
    """

    name: Literal["median", "trimmed", "clip"]
    number: float = 0.0

    def apply(self, start: Stack, end: Stack, weight: Floats, steps: Ints) -> Stack:
        """End models whose contributions are those above; `weight` is (k,), all a_i."""
        progress, share = end - start, column(len(weight) * weight, end)
        if self.name == "clip":
            length = share.abs() * progress.norm(dim=1, keepdim=True)
            shorter: Stack = self.number / length.clamp(min=self.number)
            return start + shorter * progress
        clipped = start.clone()
        moved = np.flatnonzero((steps > 0) & (weight != 0))
        if len(moved) >= _FEWEST:
            ordered = (share[moved] * progress[moved]).sort(dim=0).values
            middle = ordered[self._middle(len(moved))].mean(dim=0)
            clipped[moved] += middle / share[moved]
        return clipped

    def _middle(self, count: int) -> slice:
        """Places of the answers that are averaged, of so many in order."""
        most = (count - 1) // 2
        cut = most if self.name == "median" else min(ceil(_exactly(self.number) * count), most)
        return slice(cut, count - cut)


def _exactly(share: float) -> Fraction:
    """The decimal number that was given: in floats, 0.07 times 100 is more than 7."""
    return Fraction(repr(share))


@cache
def parse_robust(text: str) -> Robust | None:
    """The rule named on the command line; None: the server trusts every answer.

    >>> parse_robust("trimmed:0.2")
    Robust(name='trimmed', number=0.2)
    """
    name, _, number = text.partition(":")
    try:
        value = float(number) if number else 0.0
    except ValueError:
        value = -1.0
    known = {
        "none": not number,
        "median": not number,
        "trimmed": 0 < value < 0.5,
        "clip": 0 < value < float("inf"),
    }
    require(known.get(name, False), "robust", text, _RULE)
    return None if name == "none" else Robust(name, value)  # type: ignore[arg-type]


def _checked(text: str) -> str:
    parse_robust(text)
    return text


RobustRule: TypeAlias = Annotated[str, AfterValidator(_checked)]


def check_robust(method: AnyMethod, robust: Robust) -> None:
    """Refuse a rule that would change nothing, or something else than the update."""
    rule = f"need none with {method.name}, whose corrections are made of each client's own progress"
    require(not method.corrects, "robust", robust.name, rule)
    rule = f"need none with {method.name}, whose clients go on from models of their own"
    require(not method.has("next_client_model"), "robust", robust.name, rule)
    updates = _answers(method.policy())
    rule = f"needs updates of at least {_FEWEST} answers; {method.name} makes them of {updates}"
    few = updates is not None and updates < _FEWEST
    require(robust.name == "clip" or not few, "robust", robust.name, rule)


def _answers(policy: Policy) -> int | None:
    """Answers per update; None: as many as there are."""
    match policy:
        case Polling():
            return policy.selected
        case Buffered():
            return policy.buffer
        case Rounds():
            return policy.wait_for or policy.selected
        case Windowed():
            return None
    return 1
