"""Our own layers against PyTorch's, gradients included, lane by lane."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from favano.models.norm import BatchNorm2d
from favano.models.resnet import ResidualBlock
from favano.training import product_precision

pytestmark = pytest.mark.gpu

LANES, BATCH = 3, 5


def check(network: nn.Module, images: Tensor, tolerance: float) -> None:
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

    with product_precision("float32"):
        free = {name: value.requires_grad_() for name, value in weights.items()}
        losses, moved = vmap(lambda *a: loss(fast, *a))(free, buffers, images)
        found = dict(zip(free, torch.autograd.grad(losses.sum(), [*free.values()]), strict=True))
        weights = {name: value.detach() for name, value in free.items()}
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


def test_batch_normalisation_far_from_zero() -> None:
    check(BatchNorm2d(12), 100 + images(12, 7), 1e-2)


@pytest.mark.parametrize("stride", [1, 2])
def test_residual_blocks(stride: int) -> None:
    torch.manual_seed(0)
    check(ResidualBlock(16, 16 * stride, stride, "batch"), images(16, 8), 1e-3)


def test_layers_without_a_kernel_stay() -> None:
    from favano.training.gpu_kernels import for_lanes

    layers = nn.Sequential(
        nn.Conv2d(4, 4, 3, groups=2), nn.Conv2d(4, 4, 3, dilation=2),
        nn.Conv2d(4, 4, 3, padding="same"), nn.Conv2d(4, 4, (1, 3)), nn.BatchNorm2d(4),
    )  # fmt: skip
    found = [type(layer) for layer in for_lanes(layers).children()]
    assert found == [type(layer) for layer in layers]


def test_a_whole_network() -> None:
    torch.manual_seed(0)
    network = nn.Sequential(ResidualBlock(3, 16, 1, "batch"), nn.Flatten(), nn.Linear(16 * 64, 5))
    check(network, images(3, 8), 1e-3)


def test_half_precision_activations() -> None:
    """With bf16 images and float32 weights, gradients are float32 and close to the exact ones."""
    from favano.training.gpu_kernels import for_lanes

    torch.manual_seed(0)
    network = for_lanes(ResidualBlock(16, 32, 2, "batch").cuda())

    def lanes(tensor: Tensor) -> Tensor:
        return tensor.detach()[None].clone()

    weights = {name: lanes(one).requires_grad_() for name, one in network.named_parameters()}

    def loss(weights: dict[str, Tensor], buffers: dict[str, Tensor], images: Tensor) -> Tensor:
        output: Tensor = functional_call(network, (weights, buffers), (images,))
        assert output.dtype == images.dtype
        return (output.float() * torch.linspace(0, 1, output[0].numel(), device="cuda").view_as(
            output[0])).mean()  # fmt: skip

    def gradients(images: Tensor) -> tuple[Tensor, ...]:
        buffers = {name: lanes(one) for name, one in network.named_buffers()}
        losses = vmap(loss)(weights, buffers, images)
        return torch.autograd.grad(losses.sum(), [*weights.values()])

    given = images(16, 8)[:1]
    exact, rough = gradients(given), gradients(given.bfloat16())
    for name, value, close in zip(weights, exact, rough, strict=True):
        assert close.dtype == torch.float32
        assert float((close - value).norm()) < 0.05 * float(value.norm()) + 1e-4, name
