"""Weights and activations on few levels."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.func import vmap

from favano.quantisation import recipe
from favano.quantisation.recipe import GridName
from favano.quantisation.sawb import (
    CONSTANTS,
    activation_grid,
    clip_of,
    inside,
    rounded,
    weight_grid,
)

BITS = sorted(CONSTANTS)


def test_a_recipe_may_have_the_widths_that_have_constants() -> None:
    assert tuple(BITS) == recipe.BITS


def bell(seed: int = 0, size: int = 100_000) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(size, generator=generator, dtype=torch.float64)


def error(values: Tensor, quantised: Tensor) -> float:
    return float((values - quantised).square().mean())


def distinct(values: Tensor) -> list[float]:
    return sorted(set(values.tolist()))


@pytest.mark.parametrize("bits", BITS)
def test_weights_have_as_many_values_as_bits_allow(bits: int) -> None:
    levels = distinct(rounded(bell(), weight_grid(bell(), bits)))
    assert len(levels) == 2**bits - 1
    assert levels == [-value for value in reversed(levels)]
    released = rounded(bell(), weight_grid(bell(), bits, "released"))
    assert len(distinct(released)) == 2**bits + 1


@pytest.mark.parametrize("bits", BITS)
def test_activations_have_their_sign_in_the_range(bits: int) -> None:
    positive = bell().clamp(min=0)
    levels = distinct(rounded(positive, activation_grid(positive, bits)))
    assert len(levels) == 2**bits
    assert levels[0] == 0
    assert levels[-1] == pytest.approx(float(clip_of(positive, bits)))
    both = rounded(bell(), activation_grid(bell(), bits))
    assert torch.equal(both, rounded(bell(), weight_grid(bell(), bits)))


@pytest.mark.parametrize("name", ["sawb", "released"])
@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("make", [weight_grid, activation_grid])
def test_levels_stay_where_they_are_on_their_own_grid(
    make: object, bits: int, name: GridName
) -> None:
    assert callable(make)
    for values in (bell(), bell().clamp(min=0)):
        grid = make(values, bits, name)
        once = rounded(values, grid)
        assert torch.equal(rounded(once, grid), once)
        assert bool((once - values)[inside(values, grid)].abs().max() <= grid.step / 2 + 1e-12)


def test_clips_and_errors_are_those_of_the_reference() -> None:
    """For a standard normal tensor, from the closed forms of rms 1 and mean sqrt(2 / pi)."""
    mean = (2 / torch.pi) ** 0.5
    for bits, (first, second) in CONSTANTS.items():
        assert float(clip_of(bell(), bits)) == pytest.approx(first - second * mean, rel=0.02)
    for bits, expected in ((2, 0.2100), (3, 0.0474), (4, 0.0130)):
        distance = error(bell(), rounded(bell(), weight_grid(bell(), bits)))
        assert distance == pytest.approx(expected, rel=0.02)


def test_the_released_range_is_several_times_worse_on_rectified_values() -> None:
    values = bell().clamp(min=0)
    ours = error(values, rounded(values, activation_grid(values, 3)))
    theirs = error(values, rounded(values, activation_grid(values, 3, "released")))
    assert ours == pytest.approx(0.00638, rel=0.03)
    assert theirs / ours == pytest.approx(3.47, rel=0.05)


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("name", ["sawb", "released"])
def test_tensors_that_fit_no_bell(bits: int, name: GridName) -> None:
    zeros = torch.zeros(7)
    for make in (weight_grid, activation_grid):
        assert torch.equal(rounded(zeros, make(zeros, bits, name)), zeros)
    for values in (torch.ones(5), torch.tensor([3.0]), torch.tensor([1.0, -1.0, 1.0, 1.0])):
        for scale in (1e-30, 1.0, 1e30):  # squares beyond what float32 holds
            grid = weight_grid(values * scale, bits, name)
            assert 0 < float(grid.step * grid.high) <= float(values.max()) * scale * 1.0001
            if name == "sawb":
                largest = rounded(values * scale, grid).abs().max() / scale
                assert float(largest) > 0.6 * float(values.max())
    assert bool(rounded(torch.tensor([1.0, torch.nan]), weight_grid(zeros, bits)).isnan().any())
    broken = torch.tensor([1.0, torch.inf])
    assert not bool(rounded(broken, weight_grid(broken, bits)).isfinite().all())


def test_each_lane_is_a_tensor_of_its_own() -> None:
    stack = torch.stack([bell(1, 50), 100 * bell(2, 50), bell(3, 50).abs()])

    def on_grid(values: Tensor) -> Tensor:
        return rounded(values, activation_grid(values, 3))

    assert torch.allclose(
        vmap(on_grid)(stack), torch.stack([on_grid(row) for row in stack]), rtol=1e-12
    )


def test_a_clip_below_half_a_root_mean_square_is_none() -> None:
    """12.68 rms - 12.80 mean |x|: 0.54 rms for 1 and 2, 0.45 rms for 1 and 1.9."""
    kept = clip_of(torch.tensor([1.0, -2.0], dtype=torch.float64), 4)
    assert float(kept) == pytest.approx(12.68 * 2.5**0.5 - 12.80 * 1.5)
    assert float(clip_of(torch.tensor([1.0, -1.9], dtype=torch.float64), 4)) == 1.9
