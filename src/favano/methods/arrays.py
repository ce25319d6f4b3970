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
    """Coefficients of a sum of m models, and behind them m products with these models.

    Both are added and multiplied alike, and the square of the sum's length is one by the other. The
    models are w, and others by their differences from it. Products with w are all with the first
    coefficient, so that a difference of close models, where it is 0, loses no digits.
    """

    def norm(self) -> float:
        """Euclidean length of the sum."""
        half = len(self) // 2
        return math.sqrt(max(float(self[:half].dot(self[half:])), 0.0))


def units(products: Floats) -> Stack:
    """Each of the models as a combination of them, (m, 2m).

    Args:
        products: (m, m) inner products of w and the differences.
    """
    count, given = len(products), np.array(products)
    given[0, 1:] = 0.0
    given[1:, 0] = given[0, 0] + 2.0 * given[1:, 0]
    combinations = np.hstack([np.eye(count), given])
    combinations[:, 0] = 1.0  # w is in all the others, too
    return cast(Stack, combinations.view(Combination))


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
