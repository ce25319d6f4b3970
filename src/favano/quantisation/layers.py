"""Layers for low-precision training, in place of a network's own layers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from functools import partial
from typing import TypeAlias

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.nn import functional

from favano.errors import require
from favano.quantisation.functions import QuantisedGradient, Rounding
from favano.quantisation.recipe import FULL, Recipe

Product: TypeAlias = Callable[[Tensor, Tensor, Tensor | None], Tensor]

_MOST_SAMPLES = 1 << 20  # draws reserved for the gradient of each layer


class Draws:
    """The key of the current step, shared by all layers of a network.

    Autograd cannot pass a random number to a backward pass, so the layers read it here. The tensor
    is changed in place, because a recorded gradient reads it again in every step.
    """

    def __init__(self) -> None:
        self.key = torch.zeros((), dtype=torch.int64)

    def set(self, key: int, device: torch.device) -> None:
        """Use this key in the next step."""
        self.key = self.key.to(device)
        self.key.fill_(key)

    @contextmanager
    def by(self, key: Tensor) -> Iterator[None]:
        """Use another tensor as the key for a while: that of a lane, or of a recording."""
        before, self.key = self.key, key
        try:
            yield
        finally:
            self.key = before


class Quantised(nn.Module):
    """A linear layer or a convolution with the parameters of `like`.

        forward   z = Q_w(W) * Q_a(a) + bias
        backward  d <- LUQ(d);   dC/da = Q_w(W)' d,   dC/dW = d Q_a(a)',   dC/dbias from the first d

    W, its gradient and the bias have full precision. So has the forward pass in evaluation mode, if
    the recipe says so. Inputs and outputs may be bf16.
    """

    casts_itself = True

    def __init__(
        self, like: nn.Linear | nn.Conv2d, number: int, recipe: Recipe, draws: Draws
    ) -> None:
        super().__init__()
        self.weight, self.bias = like.weight, like.bias
        # What the layer computes of (inputs, weight, bias), and its two quantisers.
        product = functional.linear if isinstance(like, nn.Linear) else like._conv_forward
        self.product: Product = partial(_in_one_type, product)
        self.rounding: type[Function] = Rounding
        self.quantised_gradient: type[Function] = QuantisedGradient
        self.recipe, self.draws = recipe, draws
        self._place = number * _MOST_SAMPLES
        self._like = (like,)  # in a tuple, so that its parameters are not registered twice

    @property
    def like(self) -> nn.Linear | nn.Conv2d:
        """The layer that it replaces, for its shape; its parameters are not used."""
        return self._like[0]

    def forward(self, inputs: Tensor) -> Tensor:
        """As the layer that it replaces."""
        recipe = self.recipe
        if not self.training and recipe.evaluate_with == "full":
            return self.product(inputs, self.weight, self.bias)
        weight = self.weight
        if recipe.quantised_gradients == "weights":
            weight = self._drawn(weight, recipe.gradient_samples)
        weight = self._rounded(weight, "weights", recipe.weight_bits)
        inputs = self._rounded(inputs, "activations", recipe.activation_bits)
        out = self._multiplied(inputs, weight)
        if self.bias is None:
            return out
        bias = self.bias.to(out.dtype)
        return out + (bias[:, None, None] if self.weight.ndim == 4 else bias)

    def _multiplied(self, inputs: Tensor, weight: Tensor) -> Tensor:
        recipe = self.recipe
        if recipe.quantised_gradients != "neural":
            return self.product(inputs, weight, None)
        if recipe.gradient_samples == 1:
            return self._drawn(self.product(inputs, weight, None), 1)
        # One draw for the gradient of the inputs, several for that of the weights: the product is
        # computed for each of the two, and the second adds only its gradient.
        to_inputs = self._drawn(self.product(inputs, weight.detach(), None), 1)
        to_weight = self.product(inputs.detach(), weight, None)
        to_weight = self._drawn(to_weight, recipe.gradient_samples)
        return to_inputs + (to_weight - to_weight.detach())

    def _rounded(self, values: Tensor, kind: str, bits: int) -> Tensor:
        if bits == FULL:
            return values
        recipe = self.recipe
        out: Tensor = self.rounding.apply(  # type: ignore[no-untyped-call]
            values, kind, bits, recipe.quantiser_grid, recipe.clipped_gradients == "mask"
        )
        return out

    def _drawn(self, values: Tensor, samples: int) -> Tensor:
        levels = self.recipe.gradient_levels
        out: Tensor = self.quantised_gradient.apply(  # type: ignore[no-untyped-call]
            values, self.draws.key, self._place, levels, samples
        )
        return out


def quantised(module: nn.Module, recipe: Recipe | None) -> nn.Module:
    """A copy of a network whose linear layers and convolutions are trained in low precision.

    These are all of them, or with `inner` all but the first `nn.Conv2d` and the last `nn.Linear` in
    the order of `modules()`. Subclasses of the two are not replaced, since they may compute
    anything. If nothing changes, the network itself is returned.
    """
    if recipe is None or recipe.changes_nothing:
        return module
    copied = deepcopy(module)
    layers = [layer for layer in copied.modules() if _is_known(layer)]
    if recipe.quantised_layers == "inner":
        images = [layer for layer in layers if isinstance(layer, nn.Conv2d)]
        linear = [layer for layer in layers if isinstance(layer, nn.Linear)]
        kept = {id(layer) for layer in (*images[:1], *linear[-1:])}
        layers = [layer for layer in layers if id(layer) not in kept]
    name, what = type(module).__name__, f"quantised_layers={recipe.quantised_layers}"
    require(bool(layers), "model", name, f"has no layer to quantise with {what}")
    draws = Draws()
    new = {
        id(layer): Quantised(layer, number, recipe, draws).train(layer.training)
        for number, layer in enumerate(layers)
        if isinstance(layer, nn.Linear | nn.Conv2d)
    }
    return _replaced(copied, new)


def draws_of(module: nn.Module) -> Draws | None:
    """The key that a network's layers share; None if no layer is quantised."""
    layers = (layer for layer in module.modules() if isinstance(layer, Quantised))
    return next((layer.draws for layer in layers), None)


def _in_one_type(product: Product, inputs: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return product(inputs, weight.to(inputs.dtype), bias)


def _is_known(layer: nn.Module) -> bool:
    known = type(layer) in (nn.Linear, nn.Conv2d)
    return known and isinstance(layer.weight, nn.Parameter)


def _replaced(module: nn.Module, new: dict[int, Quantised]) -> nn.Module:
    """The module with its layers replaced, at any depth and wherever they are registered."""
    if id(module) in new:
        return new[id(module)]
    for parent in list(module.modules()):
        for name, child in parent._modules.items():
            if id(child) in new:
                parent._modules[name] = new[id(child)]
    return module
