"""Layers that train with few bits, against their products written down by hand."""

from __future__ import annotations

from copy import deepcopy
from typing import cast

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from favano.errors import BadInput
from favano.models import build
from favano.quantisation import Draws, Quantised, Recipe, draws_of, quantised
from favano.quantisation.luq import luq
from favano.quantisation.noise import uniform_noise
from favano.quantisation.sawb import activation_grid, rounded, weight_grid

KEY = 123456789


def numbers(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def layer(like: nn.Linear | nn.Conv2d, number: int = 0, **keys: object) -> Quantised:
    draws = Draws()
    draws.set(KEY, torch.device("cpu"))
    recipe = Recipe(**keys)  # type: ignore[arg-type]
    return Quantised(like.double(), number, recipe, draws)


def noise(place: int, like: Tensor) -> Tensor:
    return uniform_noise(torch.tensor(KEY), place, like)


def test_a_linear_layer_by_hand() -> None:
    torch.manual_seed(0)
    module = layer(nn.Linear(6, 4), number=3)
    inputs = numbers(5, 6).requires_grad_()
    delta = numbers(5, 4, seed=1)
    out = module(inputs)
    out.backward(delta)
    with torch.no_grad():
        weight = rounded(module.weight, weight_grid(module.weight, 3))
        values = rounded(inputs, activation_grid(inputs, 3))
        small = luq(delta, noise(3 << 20, delta))
        assert torch.equal(out, values @ weight.T + cast(Tensor, module.bias))
        assert len(set(weight.flatten().tolist())) <= 7
    assert torch.allclose(cast(Tensor, module.weight.grad), small.T @ values, rtol=1e-12)
    assert torch.allclose(cast(Tensor, inputs.grad), small @ weight, rtol=1e-12)
    bias = cast(Tensor, cast(Tensor, module.bias).grad)
    assert torch.allclose(bias, delta.sum(0), rtol=1e-12)  # not quantised
    assert not torch.equal(small, delta)


@pytest.mark.parametrize(
    "convolution",
    [
        nn.Conv2d(4, 6, 3, padding=1),
        nn.Conv2d(4, 6, 3, stride=2, bias=False),
        nn.Conv2d(4, 6, 3, groups=2, dilation=2, padding="same"),
        nn.Conv2d(4, 6, (1, 3), padding=(0, 1), padding_mode="reflect"),
    ],
)
def test_a_convolution_is_the_layer_of_rounded_parts(convolution: nn.Conv2d) -> None:
    torch.manual_seed(1)
    module = layer(deepcopy(convolution))
    inputs = numbers(2, 4, 7, 8).abs().requires_grad_()
    out = module(inputs)
    delta = numbers(*out.shape, seed=1)
    out.backward(delta)
    other = deepcopy(convolution).double()
    with torch.no_grad():
        other.weight.copy_(rounded(module.weight, weight_grid(module.weight, 3)))
        if module.bias is not None and other.bias is not None:
            other.bias.copy_(module.bias)
        values = rounded(inputs, activation_grid(inputs, 3)).requires_grad_()
    plain = other(values)
    assert torch.allclose(out, plain, rtol=1e-12)
    plain.backward(luq(delta, noise(0, delta)))
    assert torch.allclose(cast(Tensor, module.weight.grad), cast(Tensor, other.weight.grad))
    assert torch.allclose(cast(Tensor, inputs.grad), cast(Tensor, values.grad))


def test_gradients_of_weights_instead() -> None:
    """The paper's remark: what was back-propagated in full is quantised before the step."""
    module = layer(nn.Linear(6, 4), quantised_gradients="weights")
    inputs = numbers(5, 6).requires_grad_()
    delta = numbers(5, 4, seed=1)
    module(inputs).backward(delta)
    with torch.no_grad():
        exact = delta.T @ rounded(inputs, activation_grid(inputs, 3))
        weight = rounded(module.weight, weight_grid(module.weight, 3))
    assert torch.allclose(cast(Tensor, module.weight.grad), luq(exact, noise(0, exact)), rtol=1e-12)
    assert torch.allclose(cast(Tensor, inputs.grad), delta @ weight, rtol=1e-12)


def test_several_draws_for_the_weights_and_one_for_the_inputs() -> None:
    module = layer(nn.Linear(6, 4), gradient_samples=3)
    single = layer(deepcopy(module.like))
    inputs, delta = numbers(5, 6), numbers(5, 4, seed=1)
    results = []
    for each in (module, single):
        leaf = inputs.clone().requires_grad_()
        each.weight.grad = None
        out = each(leaf)
        out.backward(delta)
        results.append((out.detach(), cast(Tensor, leaf.grad), cast(Tensor, each.weight.grad)))
    assert torch.equal(results[0][0], results[1][0])
    assert torch.allclose(results[0][1], results[1][1], rtol=1e-12)
    mean = torch.stack([luq(delta, noise(k, delta)) for k in range(3)]).mean(0)
    values = rounded(inputs, activation_grid(inputs, 3))
    assert torch.allclose(results[0][2], mean.T @ values, rtol=1e-12)


def test_clipped_values_hear_nothing_if_asked() -> None:
    module = layer(
        nn.Linear(6, 1, bias=False), clipped_gradients="mask", quantised_gradients="none"
    )
    inputs = numbers(50, 6).requires_grad_()
    module(inputs).sum().backward()
    clipped = inputs.detach().abs() > activation_grid(inputs, 3).step * 3
    assert 0 < int(clipped.sum()) < clipped.numel()
    gradient = cast(Tensor, inputs.grad)
    assert bool((gradient[clipped] == 0).all())
    assert bool((gradient[~clipped] != 0).any())


@pytest.mark.quick("weights-600")
@pytest.mark.parametrize("count", [600, 2000])
@pytest.mark.parametrize("gradients", ["neural", "weights"])
def test_the_mean_gradient_is_that_without_noise(gradients: str, count: int) -> None:
    """Drawn many times, gradients of weights average to those of the rounded network."""
    module = layer(nn.Linear(6, 4), quantised_gradients=gradients)
    inputs, delta = numbers(5, 6), numbers(5, 4, seed=1)
    draws = []
    for key in range(count):
        module.draws.set(key * 7919, torch.device("cpu"))
        module.weight.grad = None
        module(inputs).backward(delta)
        draws.append(cast(Tensor, module.weight.grad))
    stack = torch.stack(draws)
    exact = delta.T @ rounded(inputs, activation_grid(inputs, 3))
    error, spread = (stack.mean(0) - exact).abs(), stack.std(0) / count**0.5
    assert bool((error <= 5 * spread + 1e-12).all())
    assert float(spread.max()) > 0


@pytest.mark.parametrize("samples", [1, 2])
@pytest.mark.parametrize("like", [nn.Linear(64, 4), nn.Conv2d(16, 4, 2, padding=1)])
def test_inputs_of_bf16(like: nn.Linear | nn.Conv2d, samples: int) -> None:
    """Weights and draws stay float32; results are those of float32, rounded to 8 bits."""
    shape = (5, 64) if isinstance(like, nn.Linear) else (5, 16, 2, 2)
    module = layer(like, gradient_samples=samples, clipped_gradients="mask")
    module.float()
    inputs, results = numbers(*shape).bfloat16(), []
    for dtype in (torch.float32, torch.bfloat16):
        leaf, module.weight.grad = inputs.to(dtype).requires_grad_(), None
        out = module(leaf)
        out.backward(numbers(*out.shape, seed=1).bfloat16().to(dtype))
        assert out.dtype == cast(Tensor, leaf.grad).dtype == dtype
        assert cast(Tensor, module.weight.grad).dtype == torch.float32
        results.append([out.detach(), cast(Tensor, leaf.grad), cast(Tensor, module.weight.grad)])
    for exact, rough in zip(*results, strict=True):
        error = float((exact - rough).norm() / exact.norm())
        assert 1e-4 < error < 0.02


def kinds(network: nn.Module) -> dict[str, str]:
    return {
        name: "few bits" if isinstance(module, Quantised) else "full"
        for name, module in network.named_modules()
        if isinstance(module, Quantised | nn.Linear | nn.Conv2d)
    }


def test_which_layers() -> None:
    perceptron = build("perceptron", input_shape=(1, 8, 8), classes=4)
    assert kinds(quantised(perceptron, Recipe())) == {"hidden": "few bits", "output": "full"}
    resnet = build("resnet20", input_shape=(3, 8, 8), classes=4)
    by_name = kinds(quantised(resnet, Recipe()))
    full = {name for name, kind in by_name.items() if kind == "full"}
    assert full == {"stem.0", "output"}
    assert len(by_name) == 22
    every = kinds(quantised(resnet, Recipe(quantised_layers="all")))
    assert set(every.values()) == {"few bits"}
    assert set(kinds(resnet).values()) == {"full"}  # a copy was changed


class Special(nn.Linear):
    def forward(self, inputs: Tensor) -> Tensor:
        return functional.linear(inputs, self.weight.exp(), self.bias)


class Nested(nn.Module):
    """One layer listed twice, one with a forward pass of its own, one inside another."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 3)
        self.inner = nn.Sequential(self.first, Special(3, 3))
        self.last = nn.Linear(3, 2)

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.last(self.inner(self.first(inputs)))
        return outputs


def test_names_and_order_of_parameters_stay() -> None:
    for network in (Nested(), build("resnet18", input_shape=(3, 16, 16), classes=5)):
        changed = quantised(network, Recipe())
        assert list(dict(changed.named_parameters())) == list(dict(network.named_parameters()))
        assert list(changed.state_dict()) == list(network.state_dict())
    nested = quantised(Nested(), Recipe())
    layers = dict(nested.named_modules(remove_duplicate=False))
    assert layers["inner.0"] is layers["first"]
    assert type(layers["first"]) is Quantised
    assert type(layers["inner.1"]) is Special
    nested(torch.randn(4, 3)).sum().backward()
    assert all(parameter.grad is not None for parameter in nested.parameters())


def test_all_layers_of_a_copy_draw_by_one_key() -> None:
    network = quantised(build("resnet20", input_shape=(3, 8, 8), classes=4), Recipe())
    copied = deepcopy(network)
    first, second = draws_of(network), draws_of(copied)
    assert first is not None
    assert second is not None
    assert first is not second
    layers = [module for module in copied.modules() if isinstance(module, Quantised)]
    assert all(module.draws is second for module in layers)
    assert draws_of(nn.Linear(2, 2)) is None


def test_full_precision_is_the_network_itself() -> None:
    network = build("perceptron", input_shape=(1, 8, 8), classes=4)
    full = Recipe(weight_bits=32, activation_bits=32, quantised_gradients="none")
    assert quantised(network, None) is network
    assert quantised(network, full) is network


def test_evaluation_in_full_precision_is_that_of_the_network_itself() -> None:
    network = build("resnet20", input_shape=(3, 8, 8), classes=4).eval()
    inputs = torch.randn(6, 3, 8, 8)
    full = quantised(network, Recipe(evaluate_with="full"))
    assert torch.equal(full(inputs), network(inputs))
    few = quantised(network, Recipe())
    assert not torch.allclose(few(inputs), network(inputs))
    full.train()
    few.train()
    assert torch.equal(full(inputs), few(inputs))


@pytest.mark.parametrize("network", [nn.Sequential(nn.Linear(4, 2)), nn.Flatten()])
def test_a_network_without_such_layers_is_refused(network: nn.Module) -> None:
    with pytest.raises(BadInput, match="has no layer to quantise with quantised_layers=inner"):
        quantised(network, Recipe())


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"weight_bits": 5}, "weight_bits=5: need one of 2, 3, 4, 32"),
        ({"activation_bits": 1}, "activation_bits=1: need one of 2, 3, 4, 32"),
        ({"gradient_levels": 6}, "gradient_levels=6: need 7 or 8"),
        ({"gradient_samples": 0}, "gradient_samples=0: need 1 or more"),
        (
            {"gradient_samples": 2, "quantised_gradients": "none"},
            "gradient_samples=2: requires quantised gradients",
        ),
        (
            {"gradient_levels": 8, "quantised_gradients": "none"},
            "gradient_levels=8: requires quantised gradients",
        ),
    ],
)
def test_recipes_that_nobody_can_follow(keys: dict[str, object], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        Recipe(**keys)  # type: ignore[arg-type]
