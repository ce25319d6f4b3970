"""Triton kernels of the cell of an LSTM, for many lanes: all that is not a product of matrices.

A step of an LSTM is limited by the number of its kernels; with these it has two, not eleven.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

_NUMBERS = 512  # states that a program handles


class Cell(NamedTuple):
    """Hidden states and cells after a step, (L, B, H), and gates and new values, (L, B, 4 H)."""

    hidden: Tensor
    cell: Tensor
    gates: Tensor


@triton.jit
def _tanh(value):
    return 2.0 * tl.sigmoid(2.0 * value) - 1.0


@triton.jit(do_not_specialize=["count"])
def _cell_kernel(
    given, recurrent, cells, hidden, new_cells, gates, count, between, BATCH: tl.constexpr,
    HIDDEN: tl.constexpr, NUMBERS: tl.constexpr,
):  # fmt: skip
    """Sums of two lanes are `between` numbers apart in `given`."""
    state = tl.program_id(0) * NUMBERS + tl.arange(0, NUMBERS)
    known = state < count
    row, column = state // HIDDEN, state % HIDDEN
    at = row.to(tl.int64) * 4 * HIDDEN + column
    given += (row // BATCH).to(tl.int64) * between + (row % BATCH) * 4 * HIDDEN + column
    recurrent += at
    sums = ()
    for gate in tl.static_range(4):
        place = gate * HIDDEN
        first = tl.load(given + place, mask=known, other=0.0).to(tl.float32)
        sums += (first + tl.load(recurrent + place, mask=known, other=0.0).to(tl.float32),)
    taken, kept, shown = tl.sigmoid(sums[0]), tl.sigmoid(sums[1]), tl.sigmoid(sums[3])
    new = _tanh(sums[2])
    cell = kept * tl.load(cells + state, mask=known, other=0.0).to(tl.float32) + taken * new
    found = (taken, kept, new, shown)
    for gate in tl.static_range(4):
        value = found[gate].to(gates.dtype.element_ty)
        tl.store(gates + at + gate * HIDDEN, value, mask=known)
    tl.store(new_cells + state, cell.to(new_cells.dtype.element_ty), mask=known)
    tl.store(hidden + state, (shown * _tanh(cell)).to(hidden.dtype.element_ty), mask=known)


@triton.jit(do_not_specialize=["count"])
def _cell_gradient_kernel(
    to_hidden, to_new_cells, gates, cells, new_cells, to_sums, to_cells, count,
    HIDDEN: tl.constexpr, NUMBERS: tl.constexpr,
):  # fmt: skip
    state = tl.program_id(0) * NUMBERS + tl.arange(0, NUMBERS)
    known = state < count
    at = (state // HIDDEN).to(tl.int64) * 4 * HIDDEN + state % HIDDEN
    found = ()
    for gate in tl.static_range(4):
        value = tl.load(gates + at + gate * HIDDEN, mask=known, other=0.0)
        found += (value.to(tl.float32),)
    taken, kept, new, shown = found
    outer = tl.load(to_hidden + state, mask=known, other=0.0).to(tl.float32)
    before = tl.load(cells + state, mask=known, other=0.0).to(tl.float32)
    after = _tanh(tl.load(new_cells + state, mask=known, other=0.0).to(tl.float32))
    inner = tl.load(to_new_cells + state, mask=known, other=0.0).to(tl.float32)
    inner += outer * shown * (1.0 - after * after)
    gradients = (
        inner * new * taken * (1.0 - taken), inner * before * kept * (1.0 - kept),
        inner * taken * (1.0 - new * new), outer * after * shown * (1.0 - shown),
    )  # fmt: skip
    for gate in tl.static_range(4):
        value = gradients[gate].to(to_sums.dtype.element_ty)
        tl.store(to_sums + at + gate * HIDDEN, value, mask=known)
    tl.store(to_cells + state, (inner * kept).to(to_cells.dtype.element_ty), mask=known)


def forward(given: Tensor, recurrent: Tensor, cell: Tensor) -> Cell:
    """A step from sums of inputs and of hidden states, (L, B, 4 H), and cells, (L, B, H)."""
    if not given[0].is_contiguous():
        given = given.contiguous()
    recurrent, cell = recurrent.contiguous(), cell.contiguous()
    hidden, after, gates = (torch.empty_like(one) for one in (cell, cell, recurrent))
    count = cell.numel()
    _cell_kernel[(triton.cdiv(count, _NUMBERS),)](
        given, recurrent, cell, hidden, after, gates, count, given.stride(0),
        BATCH=cell.shape[1], HIDDEN=cell.shape[2], NUMBERS=_NUMBERS,
    )  # fmt: skip
    return Cell(hidden, after, gates)


def backward(
    to_hidden: Tensor, to_cell: Tensor, gates: Tensor, before: Tensor, after: Tensor
) -> tuple[Tensor, Tensor]:
    """Gradients of both sums, which are the same, and of the cells before the step."""
    to_hidden, to_cell, before = (one.contiguous() for one in (to_hidden, to_cell, before))
    to_sums, to_before = torch.empty_like(gates), torch.empty_like(before)
    count = before.numel()
    _cell_gradient_kernel[(triton.cdiv(count, _NUMBERS),)](
        to_hidden, to_cell, gates, before, after, to_sums, to_before, count,
        HIDDEN=before.shape[2], NUMBERS=_NUMBERS,
    )  # fmt: skip
    return to_sums, to_before
