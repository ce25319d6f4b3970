"""Quantisers as functions of autograd, also under `torch.func.vmap` over lanes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from favano.quantisation.luq import luq
from favano.quantisation.noise import uniform_noise
from favano.quantisation.recipe import GridName
from favano.quantisation.sawb import activation_grid, inside, rounded, weight_grid

_GRIDS = {"weights": weight_grid, "activations": activation_grid}


class Rounding(Function):
    """Values rounded by SAWB; the gradient passes straight through."""

    generate_vmap_rule = True

    @staticmethod
    def forward(values: Tensor, kind: str, bits: int, grid: GridName, mask: bool) -> Tensor:
        exact = _exact(values)
        return rounded(exact, _GRIDS[kind](exact, bits, grid)).to(values.dtype)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        values, *ctx.how, ctx.mask = inputs
        if ctx.mask:
            ctx.save_for_backward(values)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        if ctx.mask:
            (values,) = ctx.saved_tensors
            kind, bits, grid = ctx.how
            exact = _exact(values)
            gradient = gradient * inside(exact, _GRIDS[kind](exact, bits, grid))
        return gradient, None, None, None, None


class QuantisedGradient(Function):
    """The identity, whose gradient is the mean of some draws of LUQ."""

    generate_vmap_rule = True

    @staticmethod
    def forward(values: Tensor, key: Tensor, place: int, levels: int, samples: int) -> Tensor:
        return values.view_as(values)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        _, key, *ctx.how = inputs
        ctx.save_for_backward(key)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        (key,) = ctx.saved_tensors
        place, levels, samples = ctx.how
        exact = _exact(gradient)
        quantised = luq(exact, uniform_noise(key, place, exact), levels)
        for number in range(1, samples):
            quantised = quantised + luq(exact, uniform_noise(key, place + number, exact), levels)
        quantised = quantised / samples if samples > 1 else quantised
        return quantised.to(gradient.dtype), None, None, None, None


def _exact(values: Tensor) -> Tensor:
    """The values as float32 if they are bf16, else themselves."""
    return values.to(torch.promote_types(values.dtype, torch.float32))
