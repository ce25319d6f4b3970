"""Networks known by name, and `build`."""

from __future__ import annotations

from functools import partial
from typing import Final, Protocol

from torch import nn

from favano.errors import require
from favano.models.leaf import leaf_cnn, leaf_lstm
from favano.models.perceptron import perceptron
from favano.models.resnet import resnet18, resnet20
from favano.models.transformer import transformer
from favano.models.vgg import vgg11


class Builder(Protocol):
    """Makes an initialised network, with draws from PyTorch's global generator."""

    def __call__(self, *, input_shape: tuple[int, ...], classes: int) -> nn.Module:
        """A network for inputs of this shape."""


MODELS: Final[dict[str, Builder]] = {
    "perceptron": perceptron,
    "resnet20": resnet20,
    "resnet20-groupnorm": partial(resnet20, norm="group"),
    "resnet18": resnet18,
    "resnet18-groupnorm": partial(resnet18, norm="group"),
    "resnet18-3x3": partial(resnet18, stem="3x3"),
    "leaf-cnn": leaf_cnn,
    "leaf-lstm": leaf_lstm,
    "transformer": transformer,
    "vgg11": vgg11,
}


def build(name: str, *, input_shape: tuple[int, ...], classes: int) -> nn.Module:
    """A network of this name, initialised from PyTorch's global generator.

    >>> network = build("perceptron", input_shape=(1, 28, 28), classes=10)
    >>> sum(parameter.numel() for parameter in network.parameters())
    25450
    """
    require(name in MODELS, "model", name, f"need one of {', '.join(MODELS)}")
    require(classes >= 1, "classes", classes, "need 1 or more")
    require(min(input_shape, default=0) >= 1, "input_shape", input_shape, "need sizes from 1")
    return MODELS[name](input_shape=input_shape, classes=classes)
