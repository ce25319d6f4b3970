"""Tensors (L, ..., K) as rows (L, M, K) in the order in which they lie in memory.

So that sequences with the batch first or second need no copies.
"""

from __future__ import annotations

from torch import Tensor


def order_of(tensor: Tensor) -> list[int]:
    """Its dimensions in the order of memory, but lanes first and the numbers of a row last."""
    strides, last = tensor.stride(), tensor.ndim - 1
    return [0, *sorted(range(1, last), key=lambda place: -strides[place]), last]


def as_rows(tensor: Tensor, order: list[int]) -> Tensor:
    """Contiguous rows of each lane; copied only if necessary."""
    rows = tensor.permute(order).flatten(1, -2)
    return rows if rows[0].is_contiguous() else rows.contiguous()


def from_rows(rows: Tensor, like: Tensor, order: list[int]) -> Tensor:
    """Rows (L, M, N) as a tensor (L, ..., N), whose dimensions between are those of `like`."""
    between = [like.shape[place] for place in order[1:-1]]
    back = sorted(range(len(order)), key=order.__getitem__)
    return rows.view(len(rows), *between, rows.shape[-1]).permute(back)
