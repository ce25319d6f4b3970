"""Arithmetic on models that works for PyTorch's tensors and for NumPy's arrays alike.

Methods are trained on tensors. They are planned and audited on NumPy's arrays, without PyTorch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np

from favano.types import Floats, Ints, Stack, Vector


def column(values: Floats, like: Stack | Floats) -> Stack:
    """One number per answer as a column (k, 1) that multiplies the rows of `like`."""
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
