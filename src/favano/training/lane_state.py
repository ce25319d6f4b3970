"""The lanes on a device: their models, where they are in their jobs, and what their steps read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from favano.training.flat import FlatModel
from favano.training.local_rule import LocalRule
from favano.training.rule_table import RuleTable
from favano.types import Stack

_ALIGNED = 16  # numbers


class LaneState(NamedTuple):
    """One row or column per lane; steps change it in place."""

    models: Stack  # weights, buffers, and the memory of local rules
    places: Tensor  # (5, lanes), the next five
    rows: Tensor  # of the roster
    steps: Tensor  # positions in the batch streams
    ends: Tensor  # positions at which jobs end
    rules: Tensor  # numbers of the local rules; 0: the direction is the corrected gradient
    since: Tensor  # positions at which optimisers began with zeros
    rates: Tensor
    orders: Tensor  # (lanes, slots x longest) samples in the orders of a few epochs
    pulls: Tensor  # of the proximal term
    starts: Stack | None  # weights that it pulls to
    corrections: Stack | None  # corrections of gradients
    numbers: Tensor  # (fields, lanes) of the optimisers
    losses: Tensor | None  # sums over the steps so far, if they are measured


def aligned(numbers: int) -> int:
    """The width of rows for so many numbers: each begins at a multiple of some bytes.

    On a GPU, products, kernels and copies of such rows are faster.
    """
    return numbers + -numbers % _ALIGNED


def new_lanes(
    model: FlatModel,
    rules: Sequence[LocalRule],
    table: RuleTable,
    count: int,
    samples: int,
    *,
    losses: bool = False,
) -> LaneState:
    """So many lanes that are idle, with room for so many samples in the orders of each."""
    layout, vector = model.layout, model.vector
    memory = table.vectors * layout.parameters
    more = aligned(layout.size + memory) - layout.size
    models = functional.pad(vector, (0, more)).repeat(count, 1)
    weights, rates = models[:, : layout.parameters], vector.new_zeros(count)
    # One tensor, so that a refill writes all five columns by one copy.
    places = torch.zeros((5, count), device=vector.device, dtype=torch.int64)
    return LaneState(
        models,
        places,
        rows=places[0],
        steps=places[1],
        ends=places[2],
        rules=places[3],
        since=places[4],
        rates=rates,
        orders=places.new_zeros((count, samples)),
        pulls=torch.zeros_like(rates),
        starts=torch.zeros_like(weights) if any(rule.proximal for rule in rules) else None,
        corrections=torch.zeros_like(weights) if any(rule.corrected for rule in rules) else None,
        numbers=rates.new_zeros((len(table.numbers), count), dtype=torch.float64),
        losses=rates.new_zeros(count, dtype=torch.float64) if losses else None,
    )
