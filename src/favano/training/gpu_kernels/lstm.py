"""An LSTM over a sequence, for many lanes: products of matrices, and Triton kernels for the rest.

A step is limited by the number of its kernels and by reading the weights: it has two kernels, and
the gradient of the recurrent weights is one product for all steps.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

_NUMBERS = 512  # states that a program handles


class Walk(NamedTuple):
    """Hidden states and cells, (L, T + 1, B, H), the first given, and gates, (L, T, B, 4 H)."""

    hidden: Tensor
    cells: Tensor
    screening: Tensor


@triton.jit
def _tanh(value):
    return 2.0 * tl.sigmoid(2.0 * value) - 1.0


@triton.jit
def _places(count, apart, BATCH: tl.constexpr, HIDDEN: tl.constexpr, NUMBERS: tl.constexpr):
    """Which states a program handles, and their places where lanes are `apart` rows apart."""
    state = tl.program_id(0) * NUMBERS + tl.arange(0, NUMBERS)
    row, column = state // HIDDEN, state % HIDDEN
    apart_row = (row // BATCH).to(tl.int64) * apart + row % BATCH
    return state, state < count, row, apart_row, column


@triton.jit(do_not_specialize=["count"])
def _step_kernel(
    given, recurrent, cells, hidden, new_cells, screening, count, given_apart, states_apart,
    BATCH: tl.constexpr, HIDDEN: tl.constexpr, NUMBERS: tl.constexpr,
):  # fmt: skip
    """One step; `given` and `gates` lie alike, and so do all states."""
    _, known, row, sums_row, column = _places(count, given_apart, BATCH, HIDDEN, NUMBERS)
    state = ((row // BATCH).to(tl.int64) * states_apart + row % BATCH) * HIDDEN + column
    at = sums_row * 4 * HIDDEN + column
    recurrent += row.to(tl.int64) * 4 * HIDDEN + column
    sums = ()
    for gate in tl.static_range(4):
        place = gate * HIDDEN
        first = tl.load(given + at + place, mask=known, other=0.0).to(tl.float32)
        sums += (first + tl.load(recurrent + place, mask=known, other=0.0).to(tl.float32),)
    taken, kept, shown = tl.sigmoid(sums[0]), tl.sigmoid(sums[1]), tl.sigmoid(sums[3])
    new = _tanh(sums[2])
    cell = kept * tl.load(cells + state, mask=known, other=0.0).to(tl.float32) + taken * new
    new_screening = (taken, kept, new, shown)
    for gate in tl.static_range(4):
        value = new_screening[gate].to(screening.dtype.element_ty)
        tl.store(screening + at + gate * HIDDEN, value, mask=known)
    tl.store(new_cells + state, cell.to(new_cells.dtype.element_ty), mask=known)
    tl.store(hidden + state, (shown * _tanh(cell)).to(hidden.dtype.element_ty), mask=known)


@triton.jit(do_not_specialize=["count"])
def _step_gradient_kernel(
    to_hidden, to_later, to_cells, screening, cells, new_cells, to_sums, count,
    gates_apart, states_apart, BATCH: tl.constexpr, HIDDEN: tl.constexpr, NUMBERS: tl.constexpr,
):  # fmt: skip
    """Of one step; `to_cells` is replaced, and `to_later` is the gradient by the next step."""
    place, known, row, sums_row, column = _places(count, gates_apart, BATCH, HIDDEN, NUMBERS)
    state = ((row // BATCH).to(tl.int64) * states_apart + row % BATCH) * HIDDEN + column
    at = sums_row * 4 * HIDDEN + column
    saved = ()
    for gate in tl.static_range(4):
        value = tl.load(screening + at + gate * HIDDEN, mask=known, other=0.0)
        saved += (value.to(tl.float32),)
    taken, kept, new, shown = saved
    outer = tl.load(to_hidden + state, mask=known, other=0.0).to(tl.float32)
    outer += tl.load(to_later + place, mask=known, other=0.0).to(tl.float32)
    before = tl.load(cells + state, mask=known, other=0.0).to(tl.float32)
    after = _tanh(tl.load(new_cells + state, mask=known, other=0.0).to(tl.float32))
    inner = tl.load(to_cells + place, mask=known, other=0.0).to(tl.float32)
    inner += outer * shown * (1.0 - after * after)
    gradients = (
        inner * new * taken * (1.0 - taken), inner * before * kept * (1.0 - kept),
        inner * taken * (1.0 - new * new), outer * after * shown * (1.0 - shown),
    )  # fmt: skip
    for gate in tl.static_range(4):
        value = gradients[gate].to(to_sums.dtype.element_ty)
        tl.store(to_sums + at + gate * HIDDEN, value, mask=known)
    tl.store(to_cells + place, (inner * kept).to(to_cells.dtype.element_ty), mask=known)


def forward(given: Tensor, weights: Tensor, hidden: Tensor, cell: Tensor) -> Walk:
    """All steps, from products of the inputs, (L, T, B, 4 H), weights and states before."""
    given, turned = given.contiguous(), weights.mT
    lanes, steps, batch, width = (*given.shape[:3], hidden.shape[-1])
    hiddens, cells = given.new_empty(2, lanes, steps + 1, batch, width)
    hiddens[:, 0], cells[:, 0] = hidden, cell
    screening, count = torch.empty_like(given), hidden.numel()
    for step in range(steps):
        _step_kernel[(triton.cdiv(count, _NUMBERS),)](
            given[:, step], torch.bmm(hiddens[:, step], turned), cells[:, step],
            hiddens[:, step + 1], cells[:, step + 1], screening[:, step], count,
            steps * batch, (steps + 1) * batch, BATCH=batch, HIDDEN=width, NUMBERS=_NUMBERS,
        )  # fmt: skip
    return Walk(hiddens, cells, screening)


def backward(
    to_hidden: Tensor | None, to_cells: Tensor | None, weights: Tensor, walk: Walk
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of what `forward` is given, from those of its states."""
    hiddens, cells, screening = walk
    lanes, steps, batch, width = (*screening.shape[:3], hiddens.shape[-1])
    to_hidden = torch.zeros_like(hiddens) if to_hidden is None else to_hidden.contiguous()
    to_later = hiddens.new_zeros(lanes, batch, width)
    to_cell = torch.zeros_like(to_later) if to_cells is None else to_cells[:, -1].clone()
    to_sums, count = torch.empty_like(screening), to_cell.numel()
    for step in reversed(range(steps)):
        _step_gradient_kernel[(triton.cdiv(count, _NUMBERS),)](
            to_hidden[:, step + 1], to_later, to_cell, screening[:, step], cells[:, step],
            cells[:, step + 1], to_sums[:, step], count, steps * batch, (steps + 1) * batch,
            BATCH=batch, HIDDEN=width, NUMBERS=_NUMBERS,
        )  # fmt: skip
        to_later = torch.bmm(to_sums[:, step], weights)
    before = hiddens[:, :-1].reshape(lanes, steps * batch, width)
    to_weights = torch.bmm(to_sums.view(lanes, steps * batch, -1).mT, before)
    return to_sums, to_weights, to_later, to_cell
