"""Residual networks (He et al. 2016): ResNet-18 and ResNet-20."""

from __future__ import annotations

from typing import Literal, TypeAlias, cast

from torch import Tensor, nn

from favano.errors import require
from favano.models.norm import Norm, Normalisation, normalisation

Stem: TypeAlias = Literal["7x7", "3x3"]


class ResidualBlock(nn.Module):
    """relu(norm(conv(relu(norm(conv(x))))) + shortcut(x)), both convolutions 3x3.

    The shortcut is the identity, or a 1x1 convolution with norm if the shape changes.
    """

    def __init__(self, inputs: int, outputs: int, stride: int, norm: Norm) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.norm1 = normalisation(norm, outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.norm2 = normalisation(norm, outputs)
        self.shortcut = nn.Sequential()
        if stride != 1 or inputs != outputs:
            projection = nn.Conv2d(inputs, outputs, 1, stride, bias=False)
            self.shortcut = nn.Sequential(projection, normalisation(norm, outputs))

    def forward(self, inputs: Tensor) -> Tensor:
        """(B, inputs, H, W) to (B, outputs, H / stride, W / stride)."""
        hidden = self.norm1.rectified(self.conv1(inputs))
        return self.norm2.rectified(self.conv2(hidden), self.shortcut(inputs))


class ResidualNetwork(nn.Module):
    """Stem, stages of residual blocks, global average pooling, linear layer.

    Args:
        input_shape: channels, height and width of the images.
        classes: number of logits.
        widths: channels of each stage; every stage after the first halves height and width.
        blocks: residual blocks in each stage.
        stem: `7x7` with stride 2 and 3x3 max-pooling of stride 2, or `3x3` with stride 1.
        norm: `batch` or `group`.
    """

    def __init__(
        self,
        input_shape: tuple[int, ...],
        classes: int,
        *,
        widths: tuple[int, ...],
        blocks: int,
        stem: Stem,
        norm: Norm,
    ) -> None:
        super().__init__()
        require(
            len(input_shape) == 3, "input_shape", input_shape, "need channels, height and width"
        )
        self.stem = _stem(stem, input_shape[0], widths[0], norm)
        layers: list[nn.Module] = []
        inputs = widths[0]
        for stage, width in enumerate(widths):
            for block in range(blocks):
                stride = 2 if stage > 0 and block == 0 else 1
                layers.append(ResidualBlock(inputs, width, stride, norm))
                inputs = width
        self.blocks = nn.Sequential(*layers)
        self.output = nn.Linear(inputs, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits (B, classes) of images (B, C, H, W)."""
        features: Tensor = self.blocks(self.stem(inputs))
        logits: Tensor = self.output(features.mean((-2, -1)))
        return logits


class FirstLayers(nn.Sequential):
    """The first layers: a convolution, its rectified norm, and perhaps max-pooling."""

    def forward(self, inputs: Tensor) -> Tensor:
        """(B, C, H, W) to the channels of the first stage."""
        convolution, norm, *pool = cast(tuple[nn.Module, Normalisation, nn.Module], tuple(self))
        hidden = norm.rectified(convolution(inputs))
        return pool[0](hidden) if pool else hidden


def _stem(stem: Stem, channels: int, width: int, norm: Norm) -> FirstLayers:
    require(stem in ("7x7", "3x3"), "stem", stem, "need 7x7 or 3x3")
    if stem == "3x3":
        convolution = nn.Conv2d(channels, width, 3, padding=1, bias=False)
        return FirstLayers(convolution, normalisation(norm, width))
    return FirstLayers(
        nn.Conv2d(channels, width, 7, stride=2, padding=3, bias=False),
        normalisation(norm, width),
        nn.MaxPool2d(3, stride=2, padding=1),
    )


def resnet18(
    *, input_shape: tuple[int, ...], classes: int, norm: Norm = "batch", stem: Stem = "7x7"
) -> nn.Module:
    """ResNet-18, the paper's network for TinyImageNet (He et al. 2016, table 1).

    Four stages of 64, 128, 256, 512 channels, two blocks each. The paper does not name the stem.
    `7x7` is torchvision's, made for 224x224 pixels; `3x3` keeps the resolution of small images and
    takes sixteen times the arithmetic.
    """
    widths = (64, 128, 256, 512)
    return ResidualNetwork(input_shape, classes, widths=widths, blocks=2, stem=stem, norm=norm)


def resnet20(*, input_shape: tuple[int, ...], classes: int, norm: Norm = "batch") -> nn.Module:
    """ResNet-20, the paper's network for CIFAR-10 (He et al. 2016, section 4.2).

    Three stages of 16, 32, 64 channels, three blocks each. Differs from He et al. in its shortcuts,
    which are 1x1 convolutions as in the simulator that the paper builds on: 272,474 parameters on
    CIFAR-10.
    """
    widths = (16, 32, 64)
    return ResidualNetwork(input_shape, classes, widths=widths, blocks=3, stem="3x3", norm=norm)
