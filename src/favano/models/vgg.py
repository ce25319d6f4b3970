"""VGG-11 (Simonyan, Zisserman 2015) for images of 32 x 32, as in the FedNova experiments."""

from __future__ import annotations

from math import sqrt

from torch import nn

from favano.errors import require

_WIDTHS = (64, 128, (256, 256), (512, 512), (512, 512))  # of the convolutions before each pooling
_HIDDEN = 512


def vgg11(*, input_shape: tuple[int, ...], classes: int) -> nn.Module:
    """Eight 3x3 convolutions without normalisation, and three dense layers, two with dropout.

    9,750,922 parameters for 10 classes. Convolutions begin as in He et al. 2015.
    """
    rule = "need channels, and a height and width of at least 32"
    large = len(input_shape) == 3 and min(input_shape[1:]) >= 32
    require(large, "input_shape", input_shape, rule)
    channels, height, width = input_shape
    layers: list[nn.Module] = []
    for group in _WIDTHS:
        for wide in group if isinstance(group, tuple) else (group,):
            convolution = nn.Conv2d(channels, wide, 3, padding=1)
            nn.init.normal_(convolution.weight, std=sqrt(2 / (9 * wide)))
            nn.init.zeros_(convolution.bias)  # type: ignore[arg-type]
            layers += [convolution, nn.ReLU()]
            channels = wide
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(
        *layers,
        nn.Flatten(),
        nn.Dropout(),
        nn.Linear(channels * (height // 32) * (width // 32), _HIDDEN),
        nn.ReLU(),
        nn.Dropout(),
        nn.Linear(_HIDDEN, _HIDDEN),
        nn.ReLU(),
        nn.Linear(_HIDDEN, classes),
    )
