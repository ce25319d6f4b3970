"""Weighted sums of rows by a kernel, against the same sums made one by one."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from favano.training import sum_rows, term_table


@pytest.mark.gpu
@pytest.mark.parametrize("size", [1, 255, 256, 1000])
def test_sums_are_those_of_a_loop(size: int) -> None:
    """Sums of a segment need earlier ones of it; some have no terms, and one has many."""
    generator = np.random.default_rng(0)
    counts = np.array([3, 0, 1, 40, 16, 17, 2, 5])
    first, segments = np.cumsum([0, *counts]), np.array([0, 3, 4, 8])
    row = np.arange(30, 38)
    terms, weights = generator.integers(0, 30, first[-1]), generator.normal(size=first[-1])
    for number in (2, 6, 7):  # the sum before it is a term
        terms[first[number]] = row[number - 1]
    start = torch.from_numpy(generator.normal(size=(40, size))).float()
    made = []
    for device in ("cpu", "cuda"):
        models = torch.full((40, size + 7), torch.nan, device=device)[:, :size]
        models[:] = start.to(device)
        wrong = torch.zeros(3, dtype=torch.int32, device=device)
        table = term_table(np.arange(8) % 3, row, first, terms, weights, segments, models)
        sum_rows(models, table, 0, 1, wrong)
        sum_rows(models, table, 1, 3, wrong)
        assert not wrong.any()
        made.append(models.cpu())
    torch.testing.assert_close(made[1], made[0], rtol=1e-5, atol=1e-5)
    assert not torch.equal(made[0], start)


@pytest.mark.gpu
@pytest.mark.parametrize("wrong_number", [float("nan"), float("inf"), -float("inf")])
def test_owners_of_sums_that_are_not_finite_are_marked(wrong_number: float) -> None:
    models = torch.ones(6, 700, device="cuda")
    models[2, 650] = wrong_number
    first, segments = np.array([0, 2, 4]), np.array([0, 1, 2])
    terms, weights = np.array([0, 1, 1, 2]), np.array([1.0, 1.0, 1.0, 0.0])
    wrong = torch.zeros(3, dtype=torch.int32, device="cuda")
    owner, row = np.array([0, 2]), np.array([4, 5])
    table = term_table(owner, row, first, terms, weights, segments, models)
    sum_rows(models, table, 0, 2, wrong)
    assert wrong.tolist() == [0, 0, 1]
