"""Numbers of a GPU in training; what does not need one is tested without."""

from __future__ import annotations

import torch
from torch import nn
from torch.func import functional_call, grad

from favano.models.norm import BatchNorm2d
from favano.quantisation import Recipe, quantised
from favano.training.precision import HalfWeights, product_precision


class _Careful(nn.Linear):
    casts_itself = True


def test_weights_are_halved_but_those_of_layers_that_see_to_it_themselves() -> None:
    network = nn.Sequential(nn.Conv2d(1, 2, 3), BatchNorm2d(2), nn.Flatten(), _Careful(2, 2))
    given = {name: value.detach() for name, value in network.named_parameters()}
    types = {name: value.dtype for name, value in HalfWeights(network).weights(given).items()}
    assert {name for name, dtype in types.items() if dtype == torch.bfloat16} == {
        "0.weight",
        "0.bias",
    }
    assert types.keys() == given.keys()


def test_layers_of_few_bits_keep_whole_weights() -> None:
    """Their clips are those of the weights, not of rounded ones."""
    network = quantised(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)), Recipe())
    weights = HalfWeights(network).weights(dict(network.named_parameters()))
    halved = {name for name, value in weights.items() if value.dtype == torch.bfloat16}
    assert halved == {"1.weight", "1.bias"}


def test_a_lone_layer_is_halved_too() -> None:
    layer = nn.Linear(3, 2)
    weights = HalfWeights(layer).weights(dict(layer.named_parameters()))
    assert {value.dtype for value in weights.values()} == {torch.bfloat16}


def test_gradients_of_halved_weights_are_whole() -> None:
    torch.manual_seed(0)
    layer, inputs = nn.Linear(64, 3), torch.randn(16, 64)
    halves = HalfWeights(layer)

    def loss(weights: dict[str, torch.Tensor], half: bool) -> torch.Tensor:
        if not half:
            output: torch.Tensor = functional_call(layer, weights, (inputs,))
        else:
            output = functional_call(layer, halves.weights(weights), (inputs.bfloat16(),))
        return output.float().square().mean()

    weights = {name: value.detach() for name, value in layer.named_parameters()}
    exact, rough = grad(loss)(weights, half=False), grad(loss)(weights, half=True)
    for name, value in exact.items():
        assert rough[name].dtype == torch.float32
        error = float((rough[name] - value).norm() / value.norm())
        assert 1e-5 < error < 0.02


def test_products_are_switched_and_switched_back() -> None:
    before = torch.backends.cuda.matmul.allow_tf32
    for precision, wanted in (("tf32", True), ("bf16", True), ("float32", False)):
        with product_precision(precision):  # type: ignore[arg-type]
            assert torch.backends.cuda.matmul.allow_tf32 is wanted
            assert torch.backends.cudnn.allow_tf32 is wanted
        assert torch.backends.cuda.matmul.allow_tf32 is before
