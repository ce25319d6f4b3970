"""Tables in the memory of a device, from which kernels read what there is to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from favano.training.device_draws import to_device
from favano.types import Floats, Ints


@dataclass(frozen=True, eq=False)
class DeviceJobs:
    """Jobs on the device, (j,) each."""

    start: Tensor  # row of the start model
    end: Tensor  # row of the end model
    row: Tensor  # of the roster
    first_step: Tensor
    steps: Tensor
    epoch: Tensor  # row of the order of an epoch, less the number of the epoch
    rate: Tensor
    pull: Tensor | None  # of the proximal term


class TermTable(NamedTuple):
    """Sums in the order in which they are made; those of a segment may need earlier ones of it."""

    owner: Tensor  # (m,) whose sum each is
    row: Tensor  # (m,) where it is stored
    first: Tensor  # (m + 1,) place of its first term
    terms: Tensor  # (t,) rows
    weights: Tensor  # (t,)
    segments: Tensor  # (s + 1,) first sum of each segment


def term_table(
    owner: Ints, row: Ints, first: Ints, terms: Ints, weights: Floats | None, segments: Ints,
    like: Tensor,
) -> TermTable:  # fmt: skip
    """The same on the device of a tensor, with its numbers as weights; None: they follow."""
    owners, rows, firsts, numbered, places = (
        to_device(column, like) for column in (owner, row, first, terms, segments)
    )
    numbers = like.new_zeros(len(terms))
    if weights is not None:
        numbers.copy_(to_device(weights, like))
    return TermTable(owners, rows, firsts, numbered, numbers, places)
