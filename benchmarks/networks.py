"""Networks as users write them, and random images for them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Final

import torch
from torch import Tensor, nn
from torch.nn import functional

CLASSES, SIDE = 10, 28
Shape = tuple[int, ...]


class Lstm(nn.Module):
    """Reads an image row by row."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.rows = nn.LSTM(SIDE, width, batch_first=True)
        self.classes = nn.Linear(width, CLASSES)

    def forward(self, images: Tensor) -> Tensor:
        states, _ = self.rows(images.flatten(1, 2))
        scores: Tensor = self.classes(states[:, -1])
        return scores


class Transformer(nn.Module):
    """Two layers over the rows of an image."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.rows = nn.Linear(SIDE, width)
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2)
        self.classes = nn.Linear(width, CLASSES)

    def forward(self, images: Tensor) -> Tensor:
        scores: Tensor = self.classes(self.layers(self.rows(images.flatten(1, 2))).mean(dim=1))
        return scores


class Block(nn.Module):
    """Two convolutions, and a way past them; where the width changes it drops every other pixel."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        stride = 1 if before == after else 2
        self.first = nn.Conv2d(before, after, 3, stride, padding=1, bias=False)
        self.first_norm = nn.BatchNorm2d(after)
        self.second = nn.Conv2d(after, after, 3, padding=1, bias=False)
        self.second_norm = nn.BatchNorm2d(after)
        self.stride, self.added = stride, after - before

    def forward(self, images: Tensor) -> Tensor:
        past = images[:, :, :: self.stride, :: self.stride]
        past = functional.pad(past, (0, 0, 0, 0, 0, self.added))
        hidden = functional.relu(self.first_norm(self.first(images)))
        return functional.relu(self.second_norm(self.second(hidden)) + past)


def resnet20() -> nn.Module:
    """For images of 32 x 32: nine blocks of 16, 32 and 64 channels."""
    widths = [16, 16, 16, 16, 32, 32, 32, 64, 64, 64]
    blocks = [Block(*pair) for pair in pairwise(widths)]
    return nn.Sequential(
        *(nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(), *blocks),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, CLASSES)),
    )


def convnet() -> nn.Module:
    """Two convolutions of 5 x 5, as in the paper of FedAvg."""
    return nn.Sequential(
        *(nn.Conv2d(1, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(32, 64, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(64 * 49, 512), nn.ReLU(), nn.Linear(512, CLASSES)),
    )


def perceptron() -> nn.Module:
    """The paper's network for MNIST."""
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 32), nn.ReLU(), nn.Linear(32, CLASSES))


def tiny() -> nn.Module:
    """50 weights: what is measured is everything but training."""
    return nn.Linear(4, CLASSES)


NETWORKS: Final[dict[str, tuple[Shape, Callable[[], nn.Module]]]] = {
    "tiny": ((4,), tiny),
    "perceptron": ((784,), perceptron),
    "convnet": ((1, 28, 28), convnet),
    "lstm": ((1, 28, 28), Lstm),
    "transformer": ((1, 28, 28), Transformer),
    "resnet20": ((3, 32, 32), resnet20),
}


def random_images(shape: Shape, count: int) -> tuple[Tensor, Tensor]:
    """The same images and labels each time."""
    draws = torch.Generator().manual_seed(count)
    images = torch.rand(count, *shape, generator=draws)
    return images, torch.randint(0, CLASSES, (count,), generator=draws)
