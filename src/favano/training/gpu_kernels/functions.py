"""The kernels as functions of autograd. Tensors begin with a dimension of lanes, but not in `vmap`.

Gradients are taken outside of `vmap`, so that a backward pass sees all lanes, too.
"""

from __future__ import annotations

from torch import Tensor
from torch.autograd import Function

from favano.training.gpu_kernels import convolution, normalisation


def _for_all_lanes(function, info, dimensions, *given):
    """Apply a function under `vmap`; tensors that all lanes share are repeated as views."""

    def stacked(value, lane):
        if not isinstance(value, Tensor):
            return value
        return (
            value.expand(info.batch_size, *value.shape) if lane is None else value.movedim(lane, 0)
        )

    found = function.apply(*map(stacked, given, dimensions))
    return found, 0 if isinstance(found, Tensor) else (0,) * len(found)


class Convolution(Function):
    """Convolution of images (L, B, I, H, W) with weights (L, O, I, k, k)."""

    @staticmethod
    def forward(images: Tensor, weights: Tensor, stride: int, padding: int) -> Tensor:
        return convolution.forward(images, weights, stride, padding)

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        images, weights, ctx.stride, ctx.padding = inputs
        ctx.save_for_backward(images, weights)

    @staticmethod
    def backward(ctx, gradient):
        images, weights = ctx.saved_tensors
        size, how = tuple(images.shape[-2:]), (ctx.stride, ctx.padding)
        to_images = to_weights = None
        if ctx.needs_input_grad[0]:
            to_images = convolution.images_gradient(gradient, weights, size, *how)
        if ctx.needs_input_grad[1]:
            to_weights = convolution.weights_gradient(gradient, images, weights.shape[-1], *how)
        return to_images, to_weights, None, None

    @staticmethod
    def vmap(info, dimensions, *given):
        return _for_all_lanes(Convolution, info, dimensions, *given)


class BatchNormalisation(Function):
    """(L, B, C, H, W) normalised, rectified or not, with the batch's mean and variance.

    `residual`, if not None, is added before rectifying.
    """

    @staticmethod
    def forward(images, weight, bias, residual, relu: bool, epsilon: float):
        return normalisation.forward(images, weight, bias, residual, relu, epsilon)

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        images, weight, bias, residual, ctx.relu, ctx.epsilon = inputs
        ctx.with_residual = residual is not None
        ctx.save_for_backward(images, weight, bias, *output)
        ctx.mark_non_differentiable(*output[1:])

    @staticmethod
    def backward(ctx, gradient, _mean, _variance):
        how = (ctx.with_residual, ctx.relu, ctx.epsilon)
        found = normalisation.backward(gradient, *ctx.saved_tensors, *how)
        images, residual, weight, bias = found
        return images, weight, bias, residual if ctx.with_residual else None, None, None

    @staticmethod
    def vmap(info, dimensions, *given):
        return _for_all_lanes(BatchNormalisation, info, dimensions, *given)
