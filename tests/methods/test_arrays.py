"""Arithmetic on models: the same on PyTorch's tensors as on NumPy's arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np
import pytest
import torch

from favano.methods.arrays import (
    coefficients,
    column,
    copies,
    stacked,
    units,
    with_rows,
    zeros,
)
from favano.types import Stack, Vector

Make = Callable[[object], Stack]


def array(values: object) -> Stack:
    return cast(Stack, np.array(values, dtype=np.float64))


def tensor(values: object) -> Stack:
    return torch.tensor(values, dtype=torch.float64)


BOTH = pytest.mark.parametrize("make", [array, tensor])
ROWS = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]


@BOTH
def test_a_column_multiplies_rows(make: Make) -> None:
    models = make(ROWS)
    product = column(np.array([1.0, 10.0, 100.0]), models) * models
    assert product.tolist() == [[1.0, 2.0], [30.0, 40.0], [500.0, 600.0]]
    assert type(product) is type(models)


@BOTH
def test_copies_are_nobody_elses(make: Make) -> None:
    models, model = make(ROWS), make([7.0, 8.0])
    for copy in (copies(model, models), copies(models, models)):
        copy[0] += 1
    assert copies(model, models).tolist() == [[7.0, 8.0]] * 3
    assert models.tolist() == ROWS
    assert model.tolist() == [7.0, 8.0]


@BOTH
def test_models_are_stacked_as_rows(make: Make) -> None:
    like = make([0.0, 0.0])
    models: list[Vector] = [make(row) for row in ROWS]
    assert stacked(models, like).tolist() == ROWS
    assert tuple(stacked([], like).shape) == (0, 2)


@BOTH
def test_zeros(make: Make) -> None:
    assert zeros(make([1.0, 2.0])).tolist() == [0.0, 0.0]
    assert zeros(make([1.0, 2.0]), 3).tolist() == [[0.0, 0.0]] * 3
    assert zeros(make([1.0])).dtype == make([1.0]).dtype


@BOTH
def test_rows_are_replaced_in_a_copy_and_the_last_wins(make: Make) -> None:
    models = make(ROWS)
    replaced = with_rows(models, np.array([2, 0, 2]), make([[7.0, 7.0], [8.0, 8.0], [9.0, 9.0]]))
    assert replaced.tolist() == [[8.0, 8.0], [3.0, 4.0], [9.0, 9.0]]
    assert models.tolist() == ROWS


@pytest.mark.parametrize("apart", [1.0, 1e-6])
def test_combinations_know_the_lengths_of_sums_of_models(apart: float) -> None:
    random = np.random.default_rng(1)
    models = 100.0 + apart * random.standard_normal((5, 9))  # far from zero, and close together
    basis = np.concatenate([models[:1], models[1:] - models[0]])
    known = units(basis @ basis.T)
    for number in range(5):
        assert known[number].norm() == pytest.approx(np.linalg.norm(models[number]))
        assert (known[number] - known[0]).norm() == pytest.approx(
            np.linalg.norm(models[number] - models[0]), rel=1e-9, abs=0
        )
    sums = [0.3 * known[1] + 0.7 * known[2], 2.0 * (known[3] - known[4]) / 3.0, known[2] - known[2]]
    weights = coefficients(sums)
    given = np.array([[0, 0.3, 0.7, 0, 0], [0, 0, 0, 2 / 3, -2 / 3], [0] * 5])
    assert np.allclose(weights, given, rtol=0, atol=1e-15)
    for made, weight in zip(sums, weights, strict=True):
        assert made.norm() == pytest.approx(np.linalg.norm(weight @ models), rel=1e-9, abs=1e-12)
    assert sums[2].norm() == 0.0
