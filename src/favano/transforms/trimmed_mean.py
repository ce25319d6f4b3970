"""The trimmed mean of client deltas."""

from __future__ import annotations

from fractions import Fraction
from math import ceil
from typing import Annotated

from pydantic import Field

from favano.methods.method import ClientUpdates
from favano.options import option
from favano.transforms.transform import ServerTransform
from favano.types import Stack

FEWEST = 3  # clients that have a middle


class TrimmedMean(ServerTransform[tuple[()]]):
    """c_i <- the mean of all c_j without the largest and the smallest `share`, rounded up.

    For each parameter by itself. Of fewer than three clients nobody can tell who is right, and
    none of them moves the model (Yin, Chen, Ramchandran, Bartlett 2018).
    """

    name = "trimmed_mean"
    fewest = FEWEST
    share: Annotated[float, Field(gt=0, lt=0.5)] = option(0.1, "left out at either end")

    def deltas(
        self, state: tuple[()], deltas: Stack, updates: ClientUpdates
    ) -> tuple[Stack, tuple[()]]:
        # The decimal number that was given: in floats, 0.07 times 100 is more than 7.
        cut = ceil(Fraction(repr(self.share)) * len(deltas))
        return middle_mean(deltas, cut), state


def middle_mean(deltas: Stack, cut: int) -> Stack:
    """For every client the mean without `cut` numbers at either end, of which some stay."""
    count = len(deltas)
    if count < FEWEST:
        return deltas.new_zeros(deltas.shape)
    cut = min(cut, (count - 1) // 2)
    return deltas.sort(dim=0).values[cut : count - cut].mean(dim=0).expand_as(deltas)


def trimmed_mean(share: float) -> TrimmedMean:
    """Replace the mean of client deltas by a trimmed mean; see `TrimmedMean`."""
    return TrimmedMean(share=share)
