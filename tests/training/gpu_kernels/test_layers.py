"""Our own layers against PyTorch's, gradients included, lane by lane."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from favano.models.norm import BatchNorm2d, GroupNorm, Norm
from favano.models.resnet import ResidualBlock
from favano.training import product_precision
from favano.types import Precision

pytestmark = pytest.mark.gpu

LANES, BATCH = 3, 5


def check(
    network: nn.Module, images: Tensor, tolerance: float, precision: Precision = "float32"
) -> None:
    """Gradients and buffers of every lane equal those of the plain network."""
    from favano.training.gpu_kernels import for_lanes

    network = network.cuda().train()
    fast = for_lanes(network)
    generator = torch.Generator("cuda").manual_seed(1)

    def lanes(tensor: Tensor) -> Tensor:
        noise = torch.rand((LANES, *tensor.shape), generator=generator, device="cuda")
        return tensor.detach() + 0.1 * noise

    weights = {name: lanes(value) for name, value in network.named_parameters()}
    buffers = {name: lanes(value) for name, value in network.named_buffers()}

    def loss(
        module: nn.Module, weights: dict[str, Tensor], buffers: dict[str, Tensor], images: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        moved = {name: value.clone() for name, value in buffers.items()}
        output = functional_call(module, (weights, moved), (images,))
        return (output.square() * torch.arange(output.numel(), device="cuda").view_as(output)
                ).mean(), moved  # fmt: skip

    with product_precision(precision):
        found, moved = vmap(grad(lambda *a: loss(fast, *a), has_aux=True))(weights, buffers, images)
    with product_precision("float32"):
        for lane in range(LANES):
            one = {name: value[lane] for name, value in weights.items()}
            state = {name: value[lane] for name, value in buffers.items()}
            wanted, after = grad(lambda *a: loss(network, *a), has_aux=True)(
                one, state, images[lane]
            )
            for name, value in wanted.items():
                scale = float(value.abs().max()) + 1e-6
                error = float((found[name][lane] - value).abs().max())
                assert error <= tolerance * scale, (name, error, scale)
            for name, value in after.items():
                torch.testing.assert_close(moved[name][lane], value, rtol=1e-4, atol=1e-5)


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


@pytest.mark.parametrize(("inputs", "outputs"), [(3, 16), (16, 16), (16, 20), (32, 32), (9, 40)])
@pytest.mark.parametrize(("size", "padding"), [(3, 1), (3, 0), (3, 2), (2, 1), (5, 2)])
def test_few_channels(inputs: int, outputs: int, size: int, padding: int) -> None:
    """On tensor cores these go row by row. Without biases, whose gradients cancel out in parts."""
    torch.manual_seed(0)
    first = nn.Conv2d(inputs, outputs, size, padding=padding, bias=False)
    layers = nn.Sequential(first, nn.Conv2d(outputs, 16, size, padding=padding, bias=False))
    check(layers, images(inputs, 10), 1e-2, "tf32")


@pytest.mark.parametrize("layer", [BatchNorm2d(12), GroupNorm(12)])
def test_normalisation_far_from_zero(layer: nn.Module) -> None:
    check(layer, 100 + images(12, 7), 1e-2)


@pytest.mark.parametrize(("groups", "channels"), [(5, 15), (1, 20), (12, 12), (6, 24)])
def test_groups_of_any_size(groups: int, channels: int) -> None:
    check(nn.GroupNorm(groups, channels), images(channels, 7), 1e-3)


@pytest.mark.parametrize("norm", ["batch", "group"])
@pytest.mark.parametrize("stride", [1, 2])
def test_residual_blocks(stride: int, norm: Norm) -> None:
    torch.manual_seed(0)
    check(ResidualBlock(16, 16 * stride, stride, norm), images(16, 8), 1e-3)


@pytest.mark.parametrize("norm", ["batch", "group"])
@pytest.mark.parametrize(("precision", "tolerance"), [("float32", 1e-3), ("tf32", 5e-2)])
def test_blocks_after_each_other(norm: Norm, precision: Precision, tolerance: float) -> None:
    """Gradients of both paths through a block reach the block before it."""
    torch.manual_seed(0)
    blocks = (ResidualBlock(8, 16, 1, norm), ResidualBlock(16, 16, 1, norm))
    network = nn.Sequential(*blocks, ResidualBlock(16, 32, 2, norm))
    check(network, images(8, 8), tolerance, precision)


@pytest.mark.parametrize("pool", [nn.MaxPool2d(3, 2, 1), nn.MaxPool2d(2), nn.MaxPool2d(3, 1)])
def test_max_pooling(pool: nn.Module) -> None:
    torch.manual_seed(0)
    check(nn.Sequential(nn.Conv2d(3, 12, 3, padding=1), pool), images(3, 9), 1e-3)


def test_max_pooling_of_equal_numbers() -> None:
    """The gradient goes to the first of equals, as in PyTorch."""
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
    check(layers, images(3, 9), 1e-3)


def test_layers_without_a_kernel_stay() -> None:
    from favano.training.gpu_kernels import for_lanes

    layers = nn.Sequential(
        nn.Conv2d(4, 4, 3, groups=2), nn.Conv2d(4, 4, 3, dilation=2),
        nn.Conv2d(4, 4, 3, padding="same"), nn.Conv2d(4, 4, (1, 3)), nn.BatchNorm2d(4),
        nn.MaxPool2d(2, ceil_mode=True), nn.MaxPool2d((2, 3)), nn.GroupNorm(2, 4, affine=False),
    )  # fmt: skip
    found = [type(layer) for layer in for_lanes(layers).children()]
    assert found == [type(layer) for layer in layers]


def test_a_whole_network() -> None:
    torch.manual_seed(0)
    network = nn.Sequential(ResidualBlock(3, 16, 1, "batch"), nn.Flatten(), nn.Linear(16 * 64, 5))
    check(network, images(3, 8), 1e-3)


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize(("norm", "tolerance"), [("batch", 0.05), ("group", 0.15)])
def test_half_precision_activations(norm: Norm, tolerance: float, stride: int) -> None:
    """With bf16 images and float32 weights, gradients are float32 and close to the exact ones."""
    from favano.training.gpu_kernels import for_lanes

    torch.manual_seed(0)
    network = for_lanes(ResidualBlock(16, 16 * stride, stride, norm).cuda())
    weights = {name: value.detach().clone() for name, value in network.named_parameters()}

    def loss(weights: dict[str, Tensor], images: Tensor) -> Tensor:
        buffers = {name: value.clone() for name, value in network.named_buffers()}
        output: Tensor = functional_call(network, (weights, buffers), (images,))
        assert output.dtype == images.dtype
        return (output.float() * torch.linspace(0, 1, output[0].numel(), device="cuda").view_as(
            output[0])).mean()  # fmt: skip

    one = images(16, 8)[0]
    exact, rough = grad(loss)(weights, one), grad(loss)(weights, one.bfloat16())
    for name, value in exact.items():
        assert rough[name].dtype == torch.float32
        assert float((rough[name] - value).norm()) < tolerance * float(value.norm()) + 1e-4, name
