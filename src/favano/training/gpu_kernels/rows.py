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


def empty_like(tensor: Tensor, order: list[int], width: int) -> Tensor:
    """Memory for (L, ..., width) in the same order.

    It is no view of other memory, since autograd does not let those be changed in place.
    """
    shape, strides, apart = (*tensor.shape[:-1], width), [0] * tensor.ndim, 1
    for place in reversed(order):
        strides[place] = apart
        apart *= shape[place]
    return tensor.new_empty_strided(shape, strides)
