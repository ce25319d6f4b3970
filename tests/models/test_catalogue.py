from __future__ import annotations

import pytest
import torch

from favano.errors import BadInput
from favano.models import MODELS, build

OF_TEXTS = ("leaf-lstm", "transformer")


@pytest.mark.parametrize("name", [name for name in MODELS if name not in OF_TEXTS])
def test_every_network_takes_its_images(name: str) -> None:
    side = 32 if name == "vgg11" else 16
    network = build(name, input_shape=(1, side, side), classes=7)
    assert network(torch.rand(2, 1, side, side)).shape == (2, 7)
    assert bool(list(network.buffers())) is (
        name.startswith("resnet") and not name.endswith("groupnorm")
    )


@pytest.mark.parametrize("name", OF_TEXTS)
def test_every_network_takes_its_texts(name: str) -> None:
    network = build(name, input_shape=(5,), classes=7)
    texts = torch.tensor([[0, 1, 2, 3, 4], [6, 5, 4, 3, 2]], dtype=torch.uint8)
    assert network(texts).shape == (2, 7)
    assert list(network.buffers()) == []
    with pytest.raises(BadInput, match=r"^input_shape=\(1, 8, 8\): need the length of a text$"):
        build(name, input_shape=(1, 8, 8), classes=7)


def test_names_are_those_of_the_command_line() -> None:
    assert list(MODELS) == [
        "perceptron",
        "resnet20",
        "resnet20-groupnorm",
        "resnet18",
        "resnet18-groupnorm",
        "resnet18-3x3",
        "leaf-cnn",
        "leaf-lstm",
        "transformer",
        "vgg11",
    ]


def test_vgg11_is_that_of_the_published_experiments() -> None:
    network = build("vgg11", input_shape=(3, 32, 32), classes=10)
    assert sum(weights.numel() for weights in network.parameters()) == 9_750_922
    with pytest.raises(BadInput, match="height and width of at least 32"):
        build("vgg11", input_shape=(3, 16, 16), classes=10)


def test_the_global_generator_decides_the_weights() -> None:
    def weights(seed: int) -> torch.Tensor:
        torch.manual_seed(seed)
        network = build("resnet20", input_shape=(3, 8, 8), classes=10)
        return torch.cat([value.flatten() for value in network.parameters()])

    assert torch.equal(weights(1), weights(1))
    assert not torch.equal(weights(1), weights(2))


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(BadInput) as caught:
        build("resnet50", input_shape=(3, 32, 32), classes=10)
    assert str(caught.value) == (
        "model=resnet50: need one of perceptron, resnet20, resnet20-groupnorm, resnet18, "
        "resnet18-groupnorm, resnet18-3x3, leaf-cnn, leaf-lstm, transformer, vgg11"
    )
    with pytest.raises(BadInput, match=r"^classes=0: need 1 or more$"):
        build("perceptron", input_shape=(4,), classes=0)
    with pytest.raises(BadInput, match=r"^input_shape=\(\): need sizes from 1$"):
        build("perceptron", input_shape=(), classes=2)
    with pytest.raises(BadInput, match=r"^input_shape=\(784,\): need channels, height and width$"):
        build("resnet20", input_shape=(784,), classes=2)
