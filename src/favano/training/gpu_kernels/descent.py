"""A step of SGD in all lanes. PyTorch's kernel for it reaches a quarter of the memory's speed."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

_NUMBERS = 4096  # weights that a program handles
_SIDE = 64  # most rows of a rectangle of them


@triton.jit(do_not_specialize=["count"])
def _descent_kernel(weights, gradients, rates, count, apart, between, NUMBERS: tl.constexpr):
    """Lanes are `apart` numbers apart in `weights`, and `between` in `gradients`."""
    lane = tl.program_id(1).to(tl.int64)
    place = tl.program_id(0) * NUMBERS + tl.arange(0, NUMBERS)
    known, rate = place < count, tl.load(rates + lane)
    at = weights + lane * apart + place
    gradient = tl.load(gradients + lane * between + place, mask=known)
    tl.store(at, tl.load(at, mask=known) - rate * gradient, mask=known)


@triton.jit
def _turned_kernel(
    weights, gradients, rates, rows, columns, apart, between,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """The same for a matrix whose gradient is stored column by column."""
    lane = tl.program_id(2).to(tl.int64)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    known = (column < columns)[:, None] & (row < rows)[None, :]
    gradients += lane * between + column[:, None] * rows + row[None, :]
    gradient = tl.trans(tl.load(gradients, mask=known))
    at = weights + lane * apart + row[:, None] * columns + column[None, :]
    known = (row < rows)[:, None] & (column < columns)[None, :]
    tl.store(at, tl.load(at, mask=known) - tl.load(rates + lane) * gradient, mask=known)


def descend(weights: Tensor, gradients: Tensor, rates: Tensor) -> None:
    """Subtract gradients (L, ...) times rates (L,) from the weights; a lane of them is dense.

    Of a linear layer the gradient is a product that comes column by column.
    """
    lanes, gradient = len(weights), gradients[0]
    if gradient.ndim == 2 and gradient.T.is_contiguous() and not gradient.is_contiguous():
        (rows, columns), high = (
            gradient.shape,
            min(_SIDE, int(triton.next_power_of_2(gradient.shape[0]))),
        )
        wide = _NUMBERS // high
        _turned_kernel[triton.cdiv(rows, high), triton.cdiv(columns, wide), lanes](
            weights, gradients, rates, rows, columns, weights.stride(0), gradients.stride(0),
            ROWS=high, COLUMNS=wide,
        )  # fmt: skip
        return
    gradients = gradients if gradient.is_contiguous() else gradients.contiguous()
    _descent_kernel[triton.cdiv(gradient.numel(), _NUMBERS), lanes](
        weights, gradients, rates, gradient.numel(), weights.stride(0), gradients.stride(0),
        NUMBERS=_NUMBERS,
    )  # fmt: skip
