"""Kernels of SAWB and LUQ against the functions of one tensor, lane by lane."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.func import vmap

from favano.data import BatchStream
from favano.models.resnet import ResidualNetwork
from favano.quantisation import Recipe, quantised
from favano.quantisation.functions import QuantisedGradient, Rounding
from favano.quantisation.recipe import GridName
from favano.training import (
    FlatModel,
    Job,
    LaneStack,
    LocalRule,
    LoopTrainer,
    Task,
    Work,
    product_precision,
)
from favano.types import Precision

pytestmark = pytest.mark.gpu

LANES, RATE = 3, 0.05
SHAPES = [(1,), (7, 5), (2, 3, 5, 5), (4, 16, 9, 9), (3, 1, 4, 4), (5000,)]
BOTH_TYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
BOTH_LAYOUTS = pytest.mark.parametrize("turned", [False, True])


def numbers(*shape: int, seed: int = 0) -> Tensor:
    """Of another size in each lane."""
    generator = torch.Generator("cuda").manual_seed(seed)
    drawn = torch.randn((LANES, *shape), generator=generator, device="cuda")
    return drawn * torch.tensor([1.0, 1e-3, 40.0], device="cuda").view(-1, *[1] * len(shape))


def turn(values: Tensor) -> Tensor:
    """The same numbers with channels last in memory, or column by column."""
    moved = 2 if values.ndim == 5 else 1
    return values.movedim(moved, -1).contiguous().movedim(-1, moved)


def close(actual: Tensor, expected: Tensor, tolerance: float = 1e-6) -> None:
    """Equal up to this error, or up to one rounding of bf16."""
    tolerance = 2.0**-7 if actual.dtype == torch.bfloat16 else tolerance
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=0.0)


def rounding(
    kernels: bool, values: Tensor, kind: str, bits: int, grid: GridName = "sawb"
) -> tuple[Tensor, Tensor]:
    """Of all lanes: rounded values, and the gradient of values that are not clipped."""
    from favano.training.gpu_kernels import functions

    function = functions.Rounding if kernels else Rounding
    leaf = values.detach().requires_grad_()
    out = vmap(lambda lane: function.apply(lane, kind, bits, grid, True))(leaf)  # type: ignore[no-untyped-call]
    rising = torch.arange(values[0].numel(), device="cuda").view_as(values[0]) % 7 + 1
    (gradient,) = torch.autograd.grad(out, leaf, torch.zeros_like(out) + rising)
    return out.detach(), gradient


def check_rounding(values: Tensor, kind: str, bits: int, grid: GridName = "sawb") -> None:
    out, gradient = rounding(True, values, kind, bits, grid)
    assert out.dtype == gradient.dtype == values.dtype
    for lane in range(len(values)):
        here = slice(lane, lane + 1)
        expected, passed = rounding(False, values[here].contiguous(), kind, bits, grid)
        close(out[here], expected, 1e-5)  # the clip is a difference, so its last bits vary
        assert torch.equal(gradient[here], passed)


@BOTH_TYPES
@BOTH_LAYOUTS
@pytest.mark.parametrize("kind", ["weights", "activations"])
@pytest.mark.parametrize("shape", SHAPES)
def test_rounding(shape: tuple[int, ...], kind: str, turned: bool, dtype: torch.dtype) -> None:
    values = numbers(*shape).to(dtype)
    check_rounding(turn(values) if turned else values, kind, 3)


@pytest.mark.parametrize("grid", ["sawb", "released"])
@pytest.mark.parametrize("bits", [2, 3, 4])
@pytest.mark.parametrize("kind", ["weights", "activations"])
@pytest.mark.parametrize("positive", [False, True])
def test_every_grid(positive: bool, kind: str, bits: int, grid: GridName) -> None:
    values = numbers(6, 8, 7, 7)
    check_rounding(values.relu() if positive else values, kind, bits, grid)
    out, gradient = rounding(True, values, kind, bits, grid)
    assert 2 < len(set(out[0].flatten().tolist())) <= 2**bits + 1
    assert 0 < int((gradient == 0).sum()) < gradient.numel() or (bits, grid) == (4, "released")


def test_lanes_of_different_signs() -> None:
    values = numbers(9, 11)
    values[1].abs_()
    check_rounding(values, "activations", 3)


@BOTH_TYPES
def test_zeros_stay_and_values_on_levels_too(dtype: torch.dtype) -> None:
    values = torch.zeros((LANES, 5, 6), device="cuda", dtype=dtype)
    values[1] = 2.5
    check_rounding(values, "weights", 3)
    assert not bool(rounding(True, values, "activations", 3)[0][0].any())


def test_nan_spreads_over_its_lane_alone() -> None:
    values = numbers(40, 100)
    values[1, 3, 5] = torch.nan
    out, _ = rounding(True, values, "activations", 3)
    assert out.isnan().flatten(1).any(1).tolist() == [False, True, False]
    coarse = drawn(True, values, 0, 7, 1)
    assert coarse.isnan().flatten(1).any(1).tolist() == [False, True, False]


def drawn(kernels: bool, gradient: Tensor, place: int, levels: int, samples: int) -> Tensor:
    """LUQ of a gradient, with other keys in each lane."""
    from favano.training.gpu_kernels import functions

    function = functions.QuantisedGradient if kernels else QuantisedGradient
    keys = torch.tensor([7, -(2**62) - 3, 2**40 + 1], device="cuda")[: len(gradient)]
    leaf = torch.zeros_like(gradient).requires_grad_()
    out = vmap(lambda lane, key: function.apply(lane, key, place, levels, samples))(leaf, keys)  # type: ignore[no-untyped-call]
    (coarse,) = torch.autograd.grad(out, leaf, gradient)
    return coarse


@BOTH_TYPES
@BOTH_LAYOUTS
@pytest.mark.parametrize("samples", [1, 2])
@pytest.mark.parametrize("shape", SHAPES)
def test_gradients(shape: tuple[int, ...], samples: int, turned: bool, dtype: torch.dtype) -> None:
    """With the same draws, which belong to elements, wherever these lie in memory."""
    gradient = numbers(*shape, seed=1).to(dtype)
    coarse = drawn(True, turn(gradient) if turned else gradient, 3 << 20, 7, samples)
    assert coarse.dtype == dtype
    close(coarse, drawn(False, gradient, 3 << 20, 7, samples))


@pytest.mark.parametrize("levels", [7, 8])
def test_gradients_of_many_sizes(levels: int) -> None:
    gradient = numbers(50, 70) * torch.logspace(-30, 3, 70, device="cuda")
    coarse = drawn(True, gradient, 0, levels, 3)
    close(coarse, drawn(False, gradient, 0, levels, 3))
    assert len(set(drawn(True, gradient, 0, levels, 1)[0].flatten().abs().tolist())) <= levels + 1
    assert not torch.equal(coarse, drawn(True, gradient, 1, levels, 3))


def test_gradients_that_are_not_dense() -> None:
    """Of a sum, which has the same number everywhere, and of every second column."""
    for gradient in (numbers(1, 1).expand(-1, 30, 20), numbers(30, 40)[..., ::2]):
        coarse = drawn(True, gradient, 5, 7, 1)
        close(coarse, drawn(False, gradient, 5, 7, 1))
    zeros = torch.zeros((LANES, 30, 20), device="cuda")
    assert not bool(drawn(True, zeros, 0, 7, 1).any())


def test_a_lane_does_not_depend_on_the_others() -> None:
    values = numbers(8, 16, 17, 17)
    for lanes in (slice(0, 1), slice(1, 3)):
        for kind in ("weights", "activations"):
            alone, together = (rounding(True, part, kind, 3) for part in (values[lanes], values))
            assert torch.equal(alone[0], together[0][lanes])
            assert torch.equal(alone[1], together[1][lanes])
    first = drawn(True, values[:1], 0, 7, 1)
    assert torch.equal(first, drawn(True, values, 0, 7, 1)[:1])


def trainer(network: nn.Module, recipe: Recipe) -> LoopTrainer:
    generator = torch.Generator().manual_seed(0)
    images = torch.randn((64, 3, 8, 8), generator=generator)
    labels = torch.randint(0, 5, (64,), generator=generator)
    data = BatchStream([np.arange(32), np.arange(32, 64)], 16, 1)
    task = Task(images.cuda(), labels.cuda(), data)
    return LoopTrainer(FlatModel(quantised(network, recipe), device="cuda"), task, LocalRule())


def residual() -> nn.Module:
    return ResidualNetwork((3, 8, 8), 5, widths=(8, 16), blocks=1, stem="3x3", norm="batch")


def convnet() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, stride=2), nn.ReLU(),
        nn.Conv2d(8, 8, 3, groups=2), nn.Flatten(), nn.Linear(8, 12), nn.ReLU(), nn.Linear(12, 5),
    )  # fmt: skip


def end_models(loop: LoopTrainer, precision: Precision) -> Tensor:
    """Of a step of two clients, computed by kernels in two lanes."""
    stack, lanes, zeros = (
        LaneStack(loop.model, [loop], 2, precision),
        np.arange(2),
        np.zeros(2, int),
    )
    work = Work(lanes, zeros, zeros + 1, np.full(2, RATE))
    stack.load(lanes, loop.model.vector.repeat(2, 1), zeros, work)
    done = stack.launch()
    assert done.lanes.tolist() == [0, 1]
    return done.ends


RECIPES = {
    "usual": Recipe(),
    "mask": Recipe(clipped_gradients="mask", quantiser_grid="released", weight_bits=4),
    "samples": Recipe(gradient_samples=2, quantised_layers="all"),
    "weights": Recipe(quantised_gradients="weights", gradient_levels=8),
}


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
@pytest.mark.parametrize("make", [residual, convnet])
def test_a_step_in_lanes_is_that_of_the_loop(make: Callable[[], nn.Module], recipe: Recipe) -> None:
    """The draws are the same, so few numbers are rounded to another level."""
    torch.manual_seed(0)
    loop = trainer(make(), recipe)
    start = loop.model.snapshot()
    with product_precision("float32"):
        ends = end_models(loop, "float32")
        for client in range(2):
            expected = loop.run(start, Job(0, client, 0, 1, RATE))
            moved = (expected - start).norm()
            assert float(moved) > 0
            assert float((ends[client] - expected).norm()) < 0.05 * float(moved)


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
@pytest.mark.parametrize("make", [residual, convnet])
def test_steps_with_bf16(make: Callable[[], nn.Module], recipe: Recipe) -> None:
    """Finite, and nearer to the steps of float32 than those are long."""
    torch.manual_seed(0)
    loop = trainer(make(), recipe)
    start = loop.model.snapshot()
    exact, rough = end_models(loop, "float32"), end_models(loop, "bf16")
    assert bool(rough.isfinite().all())
    assert rough.dtype == torch.float32
    assert float((rough - exact).norm()) < 0.5 * float((exact - start).norm())
    assert not torch.equal(rough, exact)
