"""The kernels as functions of autograd. Tensors begin with a dimension of lanes, but not in `vmap`.

Gradients are taken outside of `vmap`, so that a backward pass sees all lanes, too.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.autograd import Function

from favano.quantisation import functions as of_one_model
from favano.training.gpu_kernels import (
    batch_normalisation,
    convolution,
    group_normalisation,
    lstm,
    pooling,
    quantisers,
    weights_gradient,
)
from favano.training.gpu_kernels.bias_gradient import bias_gradient
from favano.training.gpu_kernels.channels_last import channels_last


def for_all_lanes(function: type[Function]) -> type[Function]:
    """Let a function see all lanes under `vmap`; tensors that they share are repeated as views."""

    def vmap(info, dimensions, *given):
        def stacked(value, lane):
            if not isinstance(value, Tensor):
                return value
            if lane is None:
                return value.expand(info.batch_size, *value.shape)
            return value.movedim(lane, 0)

        return function.apply(*map(stacked, given, dimensions)), 0

    once = function.backward

    def backward(ctx, *gradients):
        if torch.is_grad_enabled():  # else autograd would leave their gradients out in silence
            raise RuntimeError("the kernels for lanes have no second derivatives")
        return once(ctx, *gradients)

    function.vmap, function.backward = staticmethod(vmap), staticmethod(backward)
    return function


@for_all_lanes
class Convolution(Function):
    """Convolution of images (L, B, I, H, W) with weights (L, O, I, k, k) to (L, B, O, *size).

    Biases (L, O) may be None. The images are handed on, too, for whatever else they are used for:
    the gradient of that is added by the kernel of this one. Third are sums of the result for a
    batch normalisation of the first `samples` (L,) images, or of all.
    """

    @staticmethod
    def forward(images, weights, bias, samples, size, stride: int, padding: int):
        out, sums = convolution.convolved(
            images, weights, size, stride, padding, bias=bias, samples=samples
        )
        return out, images.view_as(images), sums

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        images, weights, _, _, _, *ctx.how = inputs
        ctx.save_for_backward(images, weights)
        ctx.mark_non_differentiable(output[2])
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx, gradient, added, _sums):
        images, weights = ctx.saved_tensors
        to_images = to_weights = to_bias = None
        if ctx.needs_input_grad[0]:
            size = tuple(images.shape[-2:])
            to_images = convolution.images_gradient(gradient, weights, size, *ctx.how, added)
        if ctx.needs_input_grad[1]:
            to_weights = weights_gradient.weights_gradient(
                gradient, images, weights.shape[-1], *ctx.how
            )
        if ctx.needs_input_grad[2]:
            to_bias = bias_gradient(gradient)
        return to_images, to_weights, to_bias, None, None, None, None


@for_all_lanes
class AlignedChannels(Function):
    """Images (L, B, C, H, W) with zeros up to a multiple of channels, which are last in memory."""

    @staticmethod
    def forward(images, multiple: int):
        return channels_last(images, multiple).movedim(-1, 2)

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        ctx.channels = inputs[0].shape[2]

    @staticmethod
    def backward(ctx, gradient):
        return gradient[:, :, : ctx.channels], None


def _normalisation(kernels) -> type[Function]:
    """(L, B, C, H, W) normalised, rectified or not, with the mean and variance that were used.

    `residual`, if not None, is added before rectifying, and `sums` are those of the images if they
    are known; `how` is what the kernels need besides.
    """

    @for_all_lanes
    class Normalisation(Function):
        @staticmethod
        def forward(images, weight, bias, residual, sums, *how):
            return kernels.forward(images, weight, bias, residual, sums, *how)

        @staticmethod
        def setup_context(ctx, inputs, output) -> None:
            images, weight, bias, residual, _, *ctx.how = inputs
            ctx.with_residual = residual is not None
            ctx.save_for_backward(images, weight, bias, *output)
            ctx.mark_non_differentiable(*output[1:])
            ctx.set_materialize_grads(False)  # zeros for statistics

        @staticmethod
        def backward(ctx, gradient, _mean, _variance):
            gradients = kernels.backward(gradient, *ctx.saved_tensors, ctx.with_residual, *ctx.how)
            return *gradients, None, *[None] * len(ctx.how)

    return Normalisation


BatchNormalisation = _normalisation(batch_normalisation)
GroupNormalisation = _normalisation(group_normalisation)


@for_all_lanes
class MaxPooling(Function):
    """Largest numbers of squares of (L, B, C, H, W), and from which pixel of the square each is.

    With `relu` the images are rectified before.
    """

    @staticmethod
    def forward(images, size: int, stride: int, padding: int, relu: bool):
        return pooling.forward(images, size, stride, padding, relu)

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        images, *ctx.how, _ = inputs
        ctx.size = tuple(images.shape[-2:])
        ctx.save_for_backward(output[1])
        ctx.mark_non_differentiable(output[1])
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx, gradient, _origin):
        to_images = pooling.backward(gradient, *ctx.saved_tensors, ctx.size, *ctx.how)
        return to_images, None, None, None, None


@for_all_lanes
class Lstm(Function):
    """An LSTM over products of its inputs, (L, T, B, 4 H): see `lstm.Walk` for what it returns.

    Only the last cells are for further use.
    """

    @staticmethod
    def forward(given, weights, hidden, cell):
        return tuple(lstm.forward(given, weights, hidden, cell))

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        ctx.save_for_backward(inputs[1], *output)
        ctx.mark_non_differentiable(output[2])
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx, to_hidden, to_cells, _screening):
        weights, *walk = ctx.saved_tensors
        return lstm.backward(to_hidden, to_cells, weights, lstm.Walk(*walk))


@for_all_lanes
class Rounding(Function):
    """Values (L, ...) rounded by SAWB; the gradient passes straight through."""

    setup_context = staticmethod(of_one_model.Rounding.setup_context)

    @staticmethod
    def forward(values, kind, bits: int, grid, mask: bool):
        return quantisers.rounded(values, kind, bits, grid)

    @staticmethod
    def backward(ctx, gradient):
        if ctx.mask:
            gradient = quantisers.masked(gradient, *ctx.saved_tensors, *ctx.how)
        return gradient, None, None, None, None


@for_all_lanes
class QuantisedGradient(Function):
    """The identity of (L, ...), whose gradient is the mean of some draws of LUQ by keys (L,)."""

    forward = staticmethod(of_one_model.QuantisedGradient.forward)
    setup_context = staticmethod(of_one_model.QuantisedGradient.setup_context)

    @staticmethod
    def backward(ctx, gradient):
        return quantisers.luq(gradient, *ctx.saved_tensors, *ctx.how), None, None, None, None
