"""The paper's three networks as plain PyTorch modules."""

from favano.models.catalogue import MODELS, Builder, build
from favano.models.norm import BatchNorm2d, Norm
from favano.models.perceptron import Perceptron, perceptron
from favano.models.residual import ResidualNetwork, Stem
from favano.models.resnet18 import resnet18
from favano.models.resnet20 import resnet20

__all__ = [
    "MODELS",
    "BatchNorm2d",
    "Builder",
    "Norm",
    "Perceptron",
    "ResidualNetwork",
    "Stem",
    "build",
    "perceptron",
    "resnet18",
    "resnet20",
]
