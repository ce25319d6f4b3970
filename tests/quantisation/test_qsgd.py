"""QSGD: unbiased, within the variance bound of its paper, zero stays zero."""

from __future__ import annotations

import pytest
import torch

from favano.errors import BadInput
from favano.quantisation import Qsgd
from tests.quantisation.draws import SIZES, carried, check_unbiased, encoded, vector


@pytest.mark.parametrize("bits", [2, 3, 5])
def test_unbiased(bits: int) -> None:
    check_unbiased(Qsgd(bits=bits), vector())


@pytest.mark.parametrize("bits", [2, 3, 5, 8])
def test_lemma_3_1_bounds_the_variance(bits: int) -> None:
    """E ||Q(v) - v||^2 <= min(d / k^2, sqrt(d) / k) ||v||^2, for each tensor."""
    codec, values = Qsgd(bits=bits), vector()
    decoded = carried(codec, values, 20_000)
    parts = zip(torch.split(values, SIZES), torch.split(decoded, SIZES, dim=1), strict=True)
    for before, after in parts:
        size, levels = len(before), codec.levels
        error = (after - before).square().sum(dim=1)
        slack = 5 * float(error.std()) / 20_000**0.5
        bound = min(size / levels**2, size**0.5 / levels) * float(before.square().sum())
        assert float(error.mean()) <= bound + slack
        if size > 1:
            assert float(error.mean()) > bound / 20  # the bound says something


def test_levels_are_multiples_of_the_norm() -> None:
    codec, values = Qsgd(bits=3), vector()
    decoded = carried(codec, values, 200)[:, :30]
    level = decoded / values[:30].norm() * codec.levels
    assert torch.allclose(level, level.round(), atol=1e-9)
    assert bool((decoded * values[:30] >= 0).all())  # signs are kept
    assert int(encoded(codec, values, 200).codes.max()) <= codec.largest


def test_zero_stays_zero() -> None:
    values = vector()
    values[:30] = 0.0
    values[35] = 0.0
    decoded = carried(Qsgd(bits=4), values, 50)
    assert bool((decoded[:, :30] == 0).all())
    assert bool((decoded[:, 35] == 0).all())


def test_the_largest_draw_stays_on_the_last_level() -> None:
    """The second tensor is one number, whose magnitude is the norm."""
    codec, most = Qsgd(bits=8), torch.full((1, sum(SIZES)), 1 - 2.0**-53, dtype=torch.float64)
    codes = codec.encode(vector()[None], most, SIZES).codes
    assert int((codes - codec.levels).abs().max()) == codec.levels


def test_one_bit_is_refused() -> None:
    with pytest.raises(BadInput, match=r"bits=1: need 2..32"):
        Qsgd(bits=1)
