"""Gradients as powers of two: unbiased, and on few levels."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.func import vmap

from favano.quantisation.luq import luq
from favano.quantisation.noise import uniform_noise
from favano.quantisation.recipe import LEVELS


def heavy(size: int = 200, dtype: torch.dtype = torch.float64) -> Tensor:
    """Numbers of very different sizes, the largest of them negative."""
    generator = torch.Generator().manual_seed(4)
    draw = torch.randn(2, size, generator=generator, dtype=torch.float64)
    values = draw[0] * torch.exp(2 * draw[1])
    return torch.cat([values, -2 * values.abs().amax()[None]]).to(dtype)


def noise(like: Tensor, number: int = 0) -> Tensor:
    return uniform_noise(torch.tensor(99), number, like)


@pytest.mark.parametrize("levels", LEVELS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_mean_of_many_draws_is_the_value(levels: int, dtype: torch.dtype) -> None:
    values, count = heavy(dtype=dtype), 20_000
    stack = values.expand(count, -1)
    draws = luq(stack, noise(stack), levels).double()
    spread = draws.std(dim=0) / count**0.5
    exact = values.double()
    assert bool(((draws.mean(dim=0) - exact).abs() <= 5 * spread + 1e-9 * exact.abs()).all())
    assert bool((draws[:, -1] == exact[-1]).all())  # the largest is a level, and is not clipped


@pytest.mark.parametrize("levels", LEVELS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_every_value_is_a_power_of_two_times_the_smallest(levels: int, dtype: torch.dtype) -> None:
    values = heavy(dtype=dtype).repeat(500)
    quantised = luq(values, noise(values), levels)
    assert (
        len(set(quantised.flatten().tolist())) == 2 * levels
    )  # -7..7 magnitudes but +M, which nothing is near
    unit = values.abs().amax() / 2 ** (levels - 1)
    powers = torch.log2(quantised[quantised != 0].abs() / unit)
    assert set(powers.tolist()) == set(range(levels))
    assert bool((quantised * values >= 0).all())  # signs are kept


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_levels_themselves_are_never_changed(dtype: torch.dtype) -> None:
    """Whatever the noise, the largest there is included: no digit is lost in adding it."""
    values = torch.tensor([64.0, 32, 16, 8, 4, 2, 1, 0, -1, -64], dtype=dtype) * 0.37
    for draw in (0.0, 0.5, 1 - 2.0**-23):
        assert torch.equal(luq(values, torch.full_like(values, draw)), values)


def test_two_neighbours_and_how_often() -> None:
    """3 lies between 2 and 4 half way; 0.25 between 0 and 1 a quarter of the way."""
    values = torch.tensor([64.0, 3.0, 0.25, -5.0]).expand(40_000, -1)
    quantised = luq(values, noise(values))
    for column, pair, share in ((1, (2, 4), 0.5), (2, (0, 1), 0.25), (3, (-8, -4), 0.75)):
        seen = quantised[:, column]
        assert set(seen.tolist()) == set(map(float, pair))
        upper = float((seen == pair[1]).double().mean())
        assert upper == pytest.approx(share, abs=5 * (share * (1 - share) / 40_000) ** 0.5)


@pytest.mark.parametrize("factor", [0.5, 3.7, 1e-6, 2.0**40])
def test_scaling_the_values_scales_the_levels(factor: float) -> None:
    values = heavy()
    quantised = luq(values, noise(values))
    assert torch.allclose(luq(factor * values, noise(values)), factor * quantised, rtol=1e-12)


def test_nothing_small_or_broken_is_hidden() -> None:
    zeros = torch.zeros(5)
    assert torch.equal(luq(zeros, noise(zeros)), zeros)
    tiny = torch.full((20_000,), 1e-44)  # below the smallest normal number
    quantised = luq(tiny, noise(tiny))
    assert set(quantised.tolist()) <= {0.0, float(np.finfo(np.float32).tiny)}
    for bad in (torch.nan, torch.inf):
        broken = torch.tensor([1.0, bad, -2.0])
        assert not bool(luq(broken, noise(broken)).isfinite().all())


def test_each_lane_is_a_tensor_of_its_own() -> None:
    stack = torch.stack([heavy(), 100 * heavy(), heavy().flip(0)])
    draws = torch.stack([noise(heavy(), number) for number in range(3)])
    expected = [luq(values, draw) for values, draw in zip(stack, draws, strict=True)]
    assert torch.equal(vmap(luq)(stack, draws), torch.stack(expected))
