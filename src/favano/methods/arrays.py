"""Arithmetic on models that works for PyTorch's tensors and for NumPy's arrays alike.

Methods are trained on tensors. They are planned and audited on NumPy's arrays, without PyTorch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

import numpy as np

from favano.types import Floats, Ints, Stack, Vector


class Combination(np.ndarray[tuple[int, ...], np.dtype[np.float64]]):
    """Coefficients of a sum of m given models, and behind them its inner products with these.

    The models are w, and others by their differences from it, so that the length of a difference of
    close models is exact. Inner products go with the sums: those of w with itself are left out,
    since the coefficient of w says them.
    """

    squared: float  # length of w

    def __array_finalize__(self, like: object) -> None:
        """Sums of combinations are of the same models."""
        if isinstance(like, Combination):
            self.squared = like.squared

    def norm(self) -> float:
        """Euclidean length of the sum."""
        of, count = self.view(np.ndarray), len(self) // 2
        w, with_w = float(of[0]), float(of[count])
        others = float(of[1:count].dot(of[count + 1 :]))
        return math.sqrt(max(others + w * (w * self.squared + 2.0 * with_w), 0.0))


def units(products: Floats) -> Stack:
    """Each of the models as a combination of them, (m, 2m).

    Args:
        products: (m, m) inner products of w and the differences.
    """
    count = len(products)
    given = np.hstack([np.eye(count), products])
    given[:, 0], given[0, count:] = 1.0, 0.0  # w is in all the others, too
    combinations = given.view(Combination)
    combinations.squared = float(products[0, 0])
    return cast(Stack, combinations)


def coefficients(combinations: Sequence[Vector]) -> Floats:
    """(k, m) coefficients of the models themselves."""
    given = np.array(combinations)
    of = given[:, : given.shape[1] // 2]
    of[:, 0] -= of[:, 1:].sum(axis=1)
    return of


def column(values: Floats, like: Stack | Floats) -> Stack:
    """One number per client update as a column (k, 1) that multiplies the rows of `like`."""
    if isinstance(like, np.ndarray):
        return cast(Stack, values[:, None])
    import torch

    return torch.as_tensor(values, dtype=like.dtype, device=like.device)[:, None]


def copies(model: Vector, like: Stack | Floats) -> Stack:
    """A copy of one model, or of one model per row, for every row of `like`."""
    if isinstance(like, np.ndarray):
        return cast(Stack, np.broadcast_to(cast(Floats, model), like.shape).copy())
    return model.expand_as(like).clone()


def stacked(models: Sequence[Vector], like: Vector | Floats) -> Stack:
    """Models as rows, (k, P); of no models (0, P)."""
    if isinstance(like, np.ndarray):
        rows = np.array(models).reshape(len(models), len(like))
        return cast(Stack, rows)
    import torch

    return torch.stack([*models]) if models else like.new_empty(0, len(like))


def numbers(values: Sequence[Vector | float]) -> list[float]:
    """Single numbers as floats; those on a device arrive together."""
    if not hasattr(values[0], "new_tensor"):
        return [float(value) for value in values]
    import torch

    return cast(list[float], torch.stack(cast(list[Vector], values)).tolist())


def zeros(like: Vector | Floats, rows: int | None = None) -> Vector:
    """A model of zeros, (P,), or so many of them, (rows, P)."""
    shape = like.shape if rows is None else (rows, *like.shape)
    if isinstance(like, np.ndarray):
        return cast(Vector, np.zeros(shape, like.dtype))
    return like.new_zeros(shape)


def with_rows(stack: Stack, rows: Ints, models: Stack) -> Stack:
    """A copy of the stack with some rows replaced; of a row named twice the last model wins."""
    if not hasattr(stack, "clone"):
        new = np.array(stack)
        new[rows] = models
        return cast(Stack, new)
    changed = stack.clone()
    for row, model in zip(rows.tolist(), models, strict=True):
        changed[row] = model
    return changed
