"""The networks of the paper and of LEAF, as plain PyTorch modules."""

from favano.models.catalogue import MODELS as MODELS
from favano.models.catalogue import build as build
from favano.models.norm import BatchNorm2d as BatchNorm2d
from favano.models.perceptron import perceptron as perceptron
