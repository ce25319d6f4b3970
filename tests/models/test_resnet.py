from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from favano.errors import BadInput
from favano.models.resnet import ResidualBlock, ResidualNetwork, Stem, resnet18, resnet20


def small(stem: Stem = "3x3") -> ResidualNetwork:
    return ResidualNetwork((2, 16, 16), 5, widths=(4, 8), blocks=2, stem=stem, norm="batch")


def test_an_unchanged_shape_has_the_identity_as_shortcut() -> None:
    block = ResidualBlock(4, 4, 1, "batch")
    assert list(block.shortcut.parameters()) == []
    with torch.no_grad():
        block.conv2.weight.zero_()
    inputs = torch.rand(3, 4, 6, 6)
    assert torch.equal(block(inputs), inputs)


def test_a_changed_shape_has_a_convolution_as_shortcut() -> None:
    block = ResidualBlock(4, 8, 2, "batch")
    shapes = [tuple(value.shape) for value in block.shortcut.parameters()]
    assert shapes == [(8, 4, 1, 1), (8,), (8,)]
    assert block(torch.rand(3, 4, 6, 6)).shape == (3, 8, 3, 3)


@pytest.mark.parametrize(("stem", "size"), [("3x3", 16), ("7x7", 4)])
def test_the_stem_keeps_or_quarters_the_resolution(stem: Stem, size: int) -> None:
    assert small(stem).stem(torch.rand(1, 2, 16, 16)).shape == (1, 4, size, size)


def test_no_convolution_has_a_bias_and_all_start_by_he() -> None:
    torch.manual_seed(0)
    network = ResidualNetwork((3, 8, 8), 5, widths=(32, 64), blocks=2, stem="3x3", norm="batch")
    convolutions = [module for module in network.modules() if isinstance(module, nn.Conv2d)]
    assert len(convolutions) == 1 + 2 * 4 + 1
    for convolution in convolutions:
        assert convolution.bias is None
        fan_out = convolution.out_channels * math.prod(convolution.kernel_size)
        spread = convolution.weight.std().item() * math.sqrt(fan_out / 2)
        assert spread == pytest.approx(1, abs=0.1)


def test_pooling_is_over_the_whole_image() -> None:
    network = small().eval()
    image = torch.rand(1, 2, 8, 8)
    features = network.blocks(network.stem(image))
    assert features.shape == (1, 8, 4, 4)
    expected = network.output(nn.functional.avg_pool2d(features, 4).flatten(1))
    assert torch.allclose(network(image), expected, atol=1e-6)


def test_bad_choices_are_refused() -> None:
    unknown: Stem = "5x5"  # type: ignore[assignment]
    with pytest.raises(BadInput, match=r"^stem=5x5: need 7x7 or 3x3$"):
        small(unknown)
    message = r"^input_shape=\(784,\): need channels, height and width$"
    with pytest.raises(BadInput, match=message):
        resnet20(input_shape=(784,), classes=10)


def test_resnet18_on_tiny_imagenet() -> None:
    network = resnet18(input_shape=(3, 64, 64), classes=200)
    assert sum(value.numel() for value in network.parameters()) == 11279112
    assert network(torch.rand(2, 3, 64, 64)).shape == (2, 200)
    weights = [value for value in network.parameters() if value.dim() in (2, 4)]
    assert len(weights) == 18 + 3  # eighteen layers and three shortcuts


def test_a_thousand_classes_give_torchvisions_count() -> None:
    network = resnet18(input_shape=(3, 224, 224), classes=1000)
    assert sum(value.numel() for value in network.parameters()) == 11689512


def test_the_3x3_stem_keeps_the_resolution() -> None:
    network = resnet18(input_shape=(3, 64, 64), classes=200, stem="3x3")
    assert network.get_submodule("stem")(torch.rand(1, 3, 64, 64)).shape == (1, 64, 64, 64)
    assert network.get_parameter("stem.0.weight").shape == (64, 3, 3, 3)


def test_a_single_small_image_can_be_trained_on() -> None:
    network = resnet18(input_shape=(3, 32, 32), classes=10)  # ends in 1x1 pixels
    network(torch.rand(1, 3, 32, 32)).sum().backward()
    assert all(torch.isfinite(value).all() for value in network.buffers())


def test_resnet20_on_cifar10() -> None:
    network = resnet20(input_shape=(3, 32, 32), classes=10)
    assert sum(value.numel() for value in network.parameters()) == 272474
    assert network(torch.rand(2, 3, 32, 32)).shape == (2, 10)
    weights = [value for value in network.parameters() if value.dim() in (2, 4)]
    assert len(weights) == 20 + 2  # twenty layers and two shortcuts


def test_group_norm_has_as_many_parameters_and_no_buffers() -> None:
    network = resnet20(input_shape=(3, 32, 32), classes=10, norm="group")
    assert sum(value.numel() for value in network.parameters()) == 272474
    assert list(network.buffers()) == []


def test_features_are_8x8_before_pooling() -> None:
    network = resnet20(input_shape=(3, 32, 32), classes=10)
    stem, blocks = network.get_submodule("stem"), network.get_submodule("blocks")
    assert blocks(stem(torch.rand(2, 3, 32, 32))).shape == (2, 64, 8, 8)
