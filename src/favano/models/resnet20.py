"""ResNet-20 for images of 32x32 pixels, the paper's network for CIFAR-10."""

from __future__ import annotations

from torch import nn

from favano.models.norm import Norm
from favano.models.residual import ResidualNetwork, image_channels


def resnet20(*, input_shape: tuple[int, ...], classes: int, norm: Norm = "batch") -> nn.Module:
    """Three stages of 16, 32, 64 channels, three blocks each (He et al. 2016, section 4.2).

    Differs from He et al. in its shortcuts, which are 1x1 convolutions as in the simulator the
    paper rests on: 272,474 parameters on CIFAR-10.
    """
    return ResidualNetwork(
        image_channels(input_shape), classes, widths=(16, 32, 64), blocks=3, stem="3x3", norm=norm
    )
