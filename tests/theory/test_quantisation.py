"""Errors of a uniform quantiser, measured."""

from __future__ import annotations

import numpy as np
import pytest

from favano.errors import BadInput
from favano.theory import quantisation_floor, rounding_error


def test_measured_errors_stay_below_and_meet_their_means() -> None:
    bits, box, size = 3, 2.0, 20_000
    generator = np.random.default_rng(0)
    x = generator.uniform(-box, box, size)
    cell = 2 * box / (2**bits - 1)
    nearest = (np.round((x + box) / cell) * cell - box - x) ** 2
    assert nearest.max() <= rounding_error(bits, box=box, dimension=1)
    mean = rounding_error(bits, box=box, dimension=1, average=True)
    assert nearest.mean() == pytest.approx(mean, abs=4 * nearest.std() / np.sqrt(size))
    low = np.floor((x + box) / cell)
    drawn = (low + (generator.random(size) < (x + box) / cell - low)) * cell - box
    square = (drawn - x) ** 2
    assert square.max() <= rounding_error(bits, box=box, dimension=1, rounding="stochastic")
    half = np.full(size, 0.5)  # the middle of a cell is the worst place
    worst = (cell * (generator.random(size) < half) - cell / 2) ** 2
    limit = rounding_error(bits, box=box, dimension=1, rounding="stochastic", average=True)
    assert worst.mean() == pytest.approx(limit)
    assert square.mean() < limit


def test_scaling() -> None:
    """Linear in d, four times smaller a bit (nearly), quadratic in the box."""
    one = rounding_error(8, box=1.0, dimension=1)
    assert rounding_error(8, box=3.0, dimension=10) == pytest.approx(90 * one)
    assert rounding_error(9, box=1.0, dimension=1) / one == pytest.approx(0.25, rel=0.01)


def test_the_floor() -> None:
    assert quantisation_floor(3.0, 2.0) == 72
    assert quantisation_floor(3.0, 2.0, "printed") == 216
    with pytest.raises(BadInput, match="squared_error=-1"):
        quantisation_floor(1.0, -1)
    with pytest.raises(BadInput, match="bits=0: need at least 1"):
        rounding_error(0, box=1.0, dimension=1)
    with pytest.raises(BadInput, match="box=0"):
        rounding_error(1, box=0, dimension=1)


def test_units() -> None:
    """L^2 r_d is a squared gradient: r_d is a squared distance."""
    for scale_f, scale_x in ((3.0, 1.0), (1.0, 5.0)):
        smoothness = 2.0 * scale_f / scale_x**2
        error = rounding_error(4, box=1.5 * scale_x, dimension=7)
        old = quantisation_floor(2.0, rounding_error(4, box=1.5, dimension=7))
        assert quantisation_floor(smoothness, error) == pytest.approx(old * scale_f**2 / scale_x**2)
