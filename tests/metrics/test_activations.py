"""How much memory a forward pass takes, and that evaluations keep within it."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from favano.metrics import Evaluator, evaluation
from favano.metrics.activations import largest_activation
from favano.models import build
from favano.training import FlatModel

PIXELS = 28 * 28


def test_the_largest_activation_is_that_of_one_sample() -> None:
    """The first convolution's, the wide layer's; weights of any size do not count."""
    images = torch.zeros(3, 1, 28, 28)
    network = build("leaf-cnn", input_shape=(1, 28, 28), classes=62).eval()
    assert largest_activation(network, images) == 32 * PIXELS
    texts = torch.zeros(3, 80, dtype=torch.uint8)
    network = build("transformer", input_shape=(80,), classes=80).eval()
    assert largest_activation(network, texts) == 80 * 4 * 128
    assert largest_activation(nn.Sequential(nn.Flatten(), nn.Linear(PIXELS, 90)), images) == PIXELS

    class Copied(nn.Linear):
        def forward(self, rows: Tensor) -> Tensor:
            return functional.linear(rows, 2 * self.weight)

    assert largest_activation(Copied(8, 9), torch.zeros(3, 8)) == 9


def test_few_large_models_are_scored_at_once() -> None:
    """64 models would make 7.6e9 numbers of the test images of FEMNIST, 31 GB."""
    flat = FlatModel(build("leaf-cnn", input_shape=(1, 28, 28), classes=62), device="cpu")
    images = torch.zeros(1, 1, 28, 28).expand(4763, -1, -1, -1)
    labels = torch.zeros(1, dtype=torch.int64).expand(4763)
    evaluate, pieces = Evaluator(flat, images, labels, functional.cross_entropy), []

    def measure(vectors: Tensor) -> Tensor:
        pieces.append(len(vectors))
        return torch.zeros(len(vectors), 2)

    object.__setattr__(evaluate, "_captured", measure)
    evaluate.measure_all(flat.snapshot().expand(5, -1))
    assert pieces == [2, 2, 1]


def test_a_batch_of_a_wide_network_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though its inputs and outputs are small."""
    monkeypatch.setattr(evaluation, "_ACTIVATIONS", 256 * 99)
    network, sizes = nn.Sequential(nn.Linear(4, 99), nn.Linear(99, 2)), list[int]()
    network.register_forward_pre_hook(lambda _, given: sizes.append(len(given[0])))
    flat = FlatModel(network, device="cpu")
    features, labels = torch.randn(300, 4), torch.arange(300) % 2
    evaluate = Evaluator(flat, features, labels, functional.cross_entropy)
    evaluate.outputs(300)
    assert sizes[-2:] == [256, 44]
