"""Our own layers against PyTorch's, gradients included, lane by lane."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from copy import deepcopy
from functools import partial
from typing import TypeAlias

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn import functional
from torch.nn.utils.parametrizations import weight_norm

from favano.models.norm import BatchNorm2d, GroupNorm, Norm
from favano.models.resnet import ResidualBlock, ResidualNetwork
from favano.training import product_precision
from favano.training.lane_recurrence import with_lane_recurrence
from favano.types import Precision

pytestmark = pytest.mark.gpu

Tensors: TypeAlias = dict[str, Tensor]

LANES, BATCH = 3, 5


def for_lanes(network: nn.Module) -> nn.Module:
    from favano.training.gpu_kernels import fused_lstm, with_kernels

    return with_kernels(with_lane_recurrence(deepcopy(network), fused_lstm))


def gradients(
    network: nn.Module, weights: Tensors, buffers: Tensors, images: Tensor
) -> tuple[Tensors, Tensors]:
    """Of all lanes at once; and the buffers after the forward pass."""
    free = {name: value.detach().requires_grad_() for name, value in weights.items()}

    def loss(weights: Tensors, buffers: Tensors, images: Tensor) -> tuple[Tensor, Tensors]:
        moved = {name: value.clone() for name, value in buffers.items()}
        output = functional_call(network, (weights, moved), (images,)).float()
        rising = torch.arange(output.numel(), device="cuda").view_as(output)
        return (output.square() * rising).mean(), moved

    losses, moved = vmap(loss)(free, buffers, images)
    slopes = torch.autograd.grad(losses.sum(), list(free.values()))
    return dict(zip(free, slopes, strict=True)), moved


def lanes(values: Iterable[tuple[str, Tensor]]) -> Tensors:
    """Other weights or buffers for each lane."""
    generator = torch.Generator("cuda").manual_seed(1)
    return {
        name: value.detach()
        + 0.1 * torch.rand((LANES, *value.shape), generator=generator, device="cuda")
        for name, value in values
    }


def check(
    network: nn.Module, images: Tensor, tolerance: float, precision: Precision = "float32"
) -> None:
    """Gradients and buffers of every lane equal those of a network without kernels."""
    network = network.cuda().train()
    weights, buffers = lanes(network.named_parameters()), lanes(network.named_buffers())
    with product_precision(precision):
        actual, moved = gradients(for_lanes(network), weights, buffers, images)
    with product_precision("float32"):
        for lane in range(LANES):
            here = slice(lane, lane + 1)
            wanted, after = gradients(
                with_lane_recurrence(deepcopy(network)),
                {name: value[here] for name, value in weights.items()},
                {name: value[here] for name, value in buffers.items()},
                images[here],
            )
            for name, value in wanted.items():
                scale = float(value.abs().max()) + 1e-6
                error = float((actual[name][here] - value).abs().max())
                assert error <= tolerance * scale, (name, error, scale)
            for name, value in after.items():
                torch.testing.assert_close(moved[name][here], value, rtol=1e-4, atol=1e-5)


def images(channels: int, side: int) -> Tensor:
    generator = torch.Generator("cuda").manual_seed(0)
    return torch.randn((LANES, BATCH, channels, side, side), generator=generator, device="cuda")


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(
    ("inputs", "outputs", "size", "stride", "padding"),
    [
        (3, 16, 3, 1, 1),
        (16, 20, 3, 2, 1),
        (7, 33, 1, 2, 0),
        (40, 64, 3, 1, 1),
        (64, 64, 3, 1, 0),
        (3, 20, 7, 2, 3),
        (33, 48, 3, 2, 1),
        (16, 150, 3, 1, 1),
        (24, 300, 1, 1, 0),
        (8, 8, 5, 3, 2),
        (3, 32, 5, 1, 2),
        (1, 20, 5, 2, 2),
        (32, 64, 5, 1, 2),
    ],
)
def test_convolutions(
    inputs: int, outputs: int, size: int, stride: int, padding: int, bias: bool
) -> None:
    torch.manual_seed(0)
    layer = nn.Conv2d(inputs, outputs, size, stride, padding, bias=bias)
    check(layer, images(inputs, 9), 1e-4)


@pytest.mark.parametrize(("inputs", "size", "padding"), [(3, 7, 3), (4, 4, 1), (1, 3, 0)])
def test_strides_of_few_channels(inputs: int, size: int, padding: int) -> None:
    """Squares of pixels become channels, if images can be divided into them."""
    torch.manual_seed(0)
    check(nn.Conv2d(inputs, 20, size, 2, padding), images(inputs, 10), 1e-4)


@pytest.mark.parametrize(
    ("inputs", "outputs", "size", "padding"),
    [
        (3, 16, 3, 1),
        (16, 16, 3, 0),
        (16, 20, 3, 2),
        (32, 32, 2, 1),
        (9, 40, 5, 2),
        (3, 40, 5, 2),
        (32, 64, 5, 2),
    ],
)
def test_few_channels(inputs: int, outputs: int, size: int, padding: int) -> None:
    """On tensor cores these go row by row. Without biases, whose gradients cancel out in parts."""
    torch.manual_seed(0)
    first = nn.Conv2d(inputs, outputs, size, padding=padding, bias=False)
    layers = nn.Sequential(first, nn.Conv2d(outputs, 16, size, padding=padding, bias=False))
    check(layers, images(inputs, 10), 1e-2, "tf32")


@pytest.mark.parametrize("layer", [BatchNorm2d(12), nn.BatchNorm2d(12), GroupNorm(12)])
def test_normalisation_far_from_zero(layer: nn.Module) -> None:
    check(layer, 100 + images(12, 7), 1e-2)


def padded_blocks() -> nn.Module:
    torch.manual_seed(0)
    first, last = ResidualBlock(8, 8, 1, "batch"), nn.Conv2d(16, 4, 3)
    return nn.Sequential(first, ResidualBlock(8, 16, 2, "batch"), last, nn.BatchNorm2d(4))


@pytest.mark.parametrize(("precision", "tolerance"), [("float32", 1e-3), ("tf32", 0.05)])
def test_images_that_pad_a_batch_count_in_no_statistics(
    precision: Precision, tolerance: float
) -> None:
    """Lanes of 5, 3 and 2 images together: as with these images alone, whatever pads them."""
    from favano.training.lane_network import batch_normalisations, counting

    network = padded_blocks().cuda().train()
    weights, buffers = lanes(network.named_parameters()), lanes(network.named_buffers())
    pixels, real = images(8, 8), torch.tensor([5, 3, 2], device="cuda")
    counts = torch.arange(BATCH, device="cuda") < real[:, None]
    pixels[~counts] *= 1000
    inside = for_lanes(network)
    norms = batch_normalisations(inside, pixels)
    assert len(norms) == 6
    free = {name: value.clone().requires_grad_() for name, value in weights.items()}
    moved = {name: value.clone() for name, value in buffers.items()}

    def loss(
        weights: Tensors, buffers: Tensors, images: Tensor, counts: Tensor, number: Tensor
    ) -> tuple[Tensor, Tensors]:
        with counting(norms, number):
            output = functional_call(inside, (weights, buffers), (images,)).flatten(1).square()
        rising = torch.arange(output.shape[1], device="cuda")
        return ((output * rising).mean(1) * counts).sum() / counts.sum(), buffers

    with product_precision(precision):
        losses, after = vmap(loss)(free, moved, pixels, counts, real)
        slopes = torch.autograd.grad(losses.sum(), list(free.values()))
    for lane, number in enumerate(real.tolist()):
        own = {name: value[lane].double().requires_grad_() for name, value in weights.items()}
        still = {name: value[lane].double() for name, value in buffers.items()}
        given = (deepcopy(network).double(), (own, still), (pixels[lane, :number].double(),))
        output = functional_call(*given).flatten(1).square()
        rising = torch.arange(output.shape[1], device="cuda")
        (output * rising).mean(1).mean().backward()
        for (name, weight), slope in zip(own.items(), slopes, strict=True):
            assert weight.grad is not None
            scale = float(weight.grad.abs().max()) + 1e-2  # a bias before a norm has none
            assert float((slope[lane] - weight.grad).abs().max()) <= tolerance * scale, name
        for name, value in still.items():
            torch.testing.assert_close(after[name][lane].double(), value, rtol=0.01, atol=0.01)


@pytest.mark.parametrize(("groups", "channels"), [(5, 15), (1, 20), (12, 12), (6, 24)])
def test_groups_of_any_size(groups: int, channels: int) -> None:
    check(nn.GroupNorm(groups, channels), images(channels, 7), 1e-3)


@pytest.mark.parametrize("norm", ["batch", "group"])
@pytest.mark.parametrize("stride", [1, 2])
def test_residual_blocks(stride: int, norm: Norm) -> None:
    torch.manual_seed(0)
    check(ResidualBlock(16, 16 * stride, stride, norm), images(16, 8), 1e-3)


def blocks(norm: Norm) -> nn.Module:
    torch.manual_seed(0)
    first, second = ResidualBlock(8, 16, 1, norm), ResidualBlock(16, 16, 1, norm)
    return nn.Sequential(first, second, ResidualBlock(16, 32, 2, norm))


@pytest.mark.parametrize("norm", ["batch", "group"])
def test_blocks_after_each_other(norm: Norm) -> None:
    """Gradients of both paths through a block reach the block before it."""
    check(blocks(norm), images(8, 8), 1e-3)


@pytest.mark.parametrize("norm", ["batch", "group"])
@pytest.mark.parametrize(("precision", "tolerance"), [("tf32", 0.05), ("bf16", 0.3)])
def test_rounded_products(norm: Norm, precision: Precision, tolerance: float) -> None:
    """Gradients are float32, and as close to the exact ones as rounding allows.

    If its images are rounded to bf16, one block of plain PyTorch has errors of 3 to 16 %.
    """
    network = for_lanes(blocks(norm).cuda().train())
    weights, buffers = lanes(network.named_parameters()), lanes(network.named_buffers())
    pixels = images(8, 8)
    with product_precision("float32"):
        exact, _ = gradients(network, weights, buffers, pixels)
    with product_precision(precision):
        rounded = pixels.bfloat16() if precision == "bf16" else pixels
        actual, _ = gradients(network, weights, buffers, rounded)
    for name, value in exact.items():
        assert actual[name].dtype == torch.float32
        assert float((actual[name] - value).norm()) < tolerance * float(value.norm()), name


@pytest.mark.parametrize("pool", [nn.MaxPool2d(3, 2, 1), nn.MaxPool2d(2), nn.MaxPool2d(3, 1)])
def test_max_pooling(pool: nn.Module) -> None:
    torch.manual_seed(0)
    check(nn.Sequential(nn.Conv2d(3, 12, 3, padding=1), pool), images(3, 9), 1e-3)


def test_max_pooling_of_equal_numbers() -> None:
    """The gradient goes to the first of equals, as in PyTorch."""
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
    check(layers, images(3, 9), 1e-3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("pool", [nn.MaxPool2d(3, 2, 1), nn.MaxPool2d(2), nn.MaxPool2d(3, 1)])
def test_rectified_max_pooling(pool: nn.MaxPool2d, dtype: torch.dtype) -> None:
    """Of whole numbers, many of which are equal; the sums of their gradients are exact, too."""
    from favano.training.gpu_kernels.layers import LaneMaxPool

    pixels = (2 * images(5, 9)).round().to(dtype)
    pixels[0, 0] = -pixels[0, 0].abs()  # no gradient
    pixels[1, 1, 1, 4, 4] = float("nan")
    ours, plain = pixels.clone().requires_grad_(), pixels.clone().requires_grad_()
    pooled = vmap(partial(LaneMaxPool(pool), relu=True))(ours)
    wanted = pool(plain.flatten(0, 1).relu()).unflatten(0, (LANES, BATCH))
    torch.testing.assert_close(pooled, wanted, rtol=0, atol=0, equal_nan=True)
    rising = (torch.arange(pooled.numel(), device="cuda") % 7 + 1).view_as(pooled).to(dtype)
    (found_gradient,) = torch.autograd.grad(pooled, ours, rising)
    (wanted_gradient,) = torch.autograd.grad(wanted, plain, rising)
    assert not found_gradient[0, 0].any()
    assert found_gradient[1, 1, 1, 4, 4] > 0
    assert torch.equal(found_gradient, wanted_gradient)


def test_a_rectifier_before_pooling_is_made_by_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only there, though one rectifier is at three places; layers keep their names."""
    torch.manual_seed(0)
    relu, pool = nn.ReLU(), nn.MaxPool2d(2)
    layers = nn.Sequential(OrderedDict(
        first=nn.Conv2d(3, 8, 3, padding=1), rectified=relu, pooled=pool,
        second=nn.Conv2d(8, 6, 3, padding=1), again=relu, smaller=pool,
        third=nn.Conv2d(6, 4, 1), last=relu,
    ))  # fmt: skip
    layers.register_parameter("own", nn.Parameter(torch.ones(3)))
    check(layers[:-1], images(3, 9), 1e-3)
    check(layers[3:], images(8, 9), 1e-3)
    calls: list[nn.Module] = []

    def forward(self: nn.ReLU, inputs: Tensor) -> Tensor:
        calls.append(self)
        return inputs.relu()

    network = for_lanes(layers)
    assert [*network.state_dict()] == [*layers.state_dict()]
    monkeypatch.setattr(nn.ReLU, "forward", forward)
    vmap(network)(images(3, 9))
    assert len(calls) == 1


@pytest.mark.parametrize("norm", [nn.BatchNorm2d, lambda channels: nn.GroupNorm(2, channels)])
def test_a_rectifier_after_a_normalisation_is_made_by_it(
    norm: Callable[[int], nn.Module], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if pooling follows; one before pooling and one alone stay what they are."""
    torch.manual_seed(0)
    layers = nn.Sequential(
        nn.Conv2d(3, 8, 3, bias=False), norm(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 6, 3, bias=False), nn.ReLU(), nn.MaxPool2d(2), nn.ReLU(), norm(6), nn.ReLU(),
    )  # fmt: skip
    check(layers, images(3, 10), 1e-3)
    calls: list[nn.Module] = []

    def forward(self: nn.ReLU, inputs: Tensor) -> Tensor:
        calls.append(self)
        return inputs.relu()

    network = for_lanes(layers.cuda().train())
    *_, alone, _, _ = network.children()
    monkeypatch.setattr(nn.ReLU, "forward", forward)
    vmap(network)(images(3, 10))
    assert calls == [alone]


class LastState(nn.Module):
    """All parts of what an LSTM returns."""

    def __init__(self, *, both_ways: bool, bias: bool, projected: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(
            9, 12, 2, bias=bias, batch_first=True, bidirectional=both_ways, proj_size=projected
        )

    def forward(self, images: Tensor) -> Tensor:
        hidden, (last, cells) = self.lstm(images.flatten(1, 2))
        return torch.cat([hidden.flatten(1), *last, *cells], dim=1)


@pytest.mark.parametrize(
    ("both_ways", "bias", "projected"), [(False, True, 0), (True, False, 0), (True, True, 5)]
)
def test_lstms(both_ways: bool, bias: bool, projected: int) -> None:
    torch.manual_seed(0)
    network = LastState(both_ways=both_ways, bias=bias, projected=projected)
    check(network, images(2, 9), 1e-3)


class Standardised(nn.Conv2d):
    """A user's own convolution."""

    def forward(self, images: Tensor) -> Tensor:
        weight = self.weight - self.weight.mean((1, 2, 3), keepdim=True)
        return functional.conv2d(images, weight, self.bias)


def test_layers_without_a_kernel_stay() -> None:
    """Neither are layers replaced that the user has changed: that would train something else."""
    layers = nn.Sequential(
        nn.Conv2d(4, 4, 3, groups=2), nn.Conv2d(4, 4, 3, dilation=2),
        nn.Conv2d(4, 4, 3, padding="same"), nn.Conv2d(4, 4, (1, 3)),
        nn.BatchNorm2d(4, affine=False), nn.MaxPool2d(2, ceil_mode=True), nn.MaxPool2d((2, 3)),
        nn.GroupNorm(2, 4, affine=False), Standardised(4, 4, 3), weight_norm(nn.Conv2d(4, 4, 3)),
        nn.Conv2d(4, 4, 3), nn.BatchNorm2d(4),
    )  # fmt: skip
    layers[-2].register_forward_hook(lambda layer, given, output: 2 * output)
    layers[-1].register_forward_pre_hook(lambda layer, given: 2 * given[0])
    kinds = [type(layer) for layer in for_lanes(layers).children()]
    assert kinds == [type(layer) for layer in layers]


def test_a_whole_network() -> None:
    torch.manual_seed(0)
    network = ResidualNetwork((3, 16, 16), 5, widths=(16, 32), blocks=1, stem="7x7", norm="batch")
    check(network, images(3, 16), 1e-2)
