"""ResNet-18, the paper's network for TinyImageNet."""

from __future__ import annotations

from torch import nn

from favano.models.norm import Norm
from favano.models.residual import ResidualNetwork, Stem, image_channels


def resnet18(
    *, input_shape: tuple[int, ...], classes: int, norm: Norm = "batch", stem: Stem = "7x7"
) -> nn.Module:
    """Four stages of 64, 128, 256, 512 channels, two blocks each (He et al. 2016, table 1).

    The paper does not name the stem. `7x7` is torchvision's, made for 224x224 pixels; `3x3` keeps
    the resolution of small images, at sixteen times the arithmetic.
    """
    return ResidualNetwork(
        image_channels(input_shape),
        classes,
        widths=(64, 128, 256, 512),
        blocks=2,
        stem=stem,
        norm=norm,
    )
