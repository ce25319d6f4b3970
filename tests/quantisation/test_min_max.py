"""Stochastic rounding between extremes: unbiased, inside the range, and constants exact."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from favano.errors import BadInput
from favano.quantisation import MinMax
from tests.quantisation.draws import SIZES, carried, check_unbiased, encoded, vector


@pytest.mark.parametrize("bits", [1, 2, 4])
def test_unbiased(bits: int) -> None:
    check_unbiased(MinMax(bits=bits), vector())


@given(bits=st.integers(1, 32), seed=st.integers(0, 1000))
def test_each_tensor_stays_within_its_range_and_one_unit_of_itself(bits: int, seed: int) -> None:
    codec, values = MinMax(bits=bits), vector(seed)
    decoded = carried(codec, values, 5)
    parts = zip(torch.split(values, SIZES), torch.split(decoded, SIZES, dim=1), strict=True)
    for before, after in parts:
        low, high = float(before.min()), float(before.max())
        slack = 1e-12 * max(abs(low), abs(high))
        assert float(after.min()) >= low - slack
        assert float(after.max()) <= high + slack
        unit = (high - low) / codec.largest
        assert float((after - before).abs().max()) <= unit + slack


def test_a_constant_tensor_is_itself() -> None:
    values = vector()
    values[:30] = 0.1  # and the second tensor is one number
    decoded = carried(MinMax(bits=1), values, 100)
    assert bool((decoded[:, :31] == values[:31]).all())


def test_levels_are_as_many_as_codes() -> None:
    codec = MinMax(bits=2)
    coded = encoded(codec, vector(), 500)
    assert set(coded.codes[:, :30].flatten().tolist()) == {0, 1, 2, 3}
    assert coded.scalars.shape == (500, codec.scalars(3))
    decoded = carried(codec, vector(), 500)[:, :30]
    assert len(set(decoded.flatten().tolist())) == 4
    assert decoded.min() == vector()[:30].min()


def test_the_largest_draw_stays_on_the_last_level() -> None:
    """255 and the largest number below 1 round to 256."""
    codec, most = MinMax(bits=8), torch.full((1, sum(SIZES)), 1 - 2.0**-53, dtype=torch.float64)
    assert int(codec.encode(vector()[None], most, SIZES).codes.max()) == codec.largest


def test_impossible_widths_are_refused() -> None:
    with pytest.raises(BadInput, match=r"bits=0: need 1..32"):
        MinMax(bits=0)
