from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from favano.errors import BadInput
from favano.models.residual import ResidualBlock, ResidualNetwork, Stem, image_channels


def small(stem: Stem = "3x3") -> ResidualNetwork:
    return ResidualNetwork(2, 5, widths=(4, 8), blocks=2, stem=stem, norm="batch")


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
    network = ResidualNetwork(3, 5, widths=(32, 64), blocks=2, stem="3x3", norm="batch")
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
        image_channels((784,))
