"""The kernels as functions that `torch.func.grad` and `vmap` understand."""

from __future__ import annotations

from torch import Tensor
from torch.autograd import Function

from favano.training.gpu_kernels import (
    batch_normalisation,
    convolution,
    group_normalisation,
    pooling,
    weights_gradient,
)


def _one_lane(kernel, *given):
    """The results of a kernel for tensors without a dimension of lanes."""
    found = kernel(*(one[None] if isinstance(one, Tensor) else one for one in given))
    return found[0] if isinstance(found, Tensor) else tuple(part[0] for part in found)


def _lanes(kernel, info, dimensions, *given):
    """The results of a kernel under `vmap`; tensors that all lanes share are repeated as views."""

    def stacked(value, lane):
        if not isinstance(value, Tensor):
            return value
        return (
            value.expand(info.batch_size, *value.shape) if lane is None else value.movedim(lane, 0)
        )

    found = kernel(*map(stacked, given, dimensions))
    return (found, 0) if isinstance(found, Tensor) else (tuple(found), (0,) * len(found))


def _gradient(kernel) -> type[Function]:
    """A kernel of a backward pass. It has no derivative, so nothing is saved for one."""

    class Gradient(Function):
        @staticmethod
        def forward(*given):
            return _one_lane(kernel, *given)

        @staticmethod
        def setup_context(ctx, inputs, output) -> None:
            pass

        @staticmethod
        def vmap(info, dimensions, *given):
            return _lanes(kernel, info, dimensions, *given)

    return Gradient


_ImagesGradient = _gradient(convolution.images_gradient)
_WeightsGradient = _gradient(weights_gradient.weights_gradient)


class Convolution(Function):
    """Convolution of images (B, I, H, W) with weights (O, I, k, k) to (B, O, *size).

    It also hands on the images, for whatever else they are used for: the gradient of that is added
    by the kernel of this one. Third are sums of the result for a batch normalisation.
    """

    @staticmethod
    def forward(images, weights, size, stride: int, padding: int):
        out, sums = _one_lane(convolution.forward, images, weights, size, stride, padding)
        return out, images.view_as(images), sums

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        images, weights, _, ctx.stride, ctx.padding = inputs
        ctx.save_for_backward(images, weights)
        ctx.mark_non_differentiable(output[2])
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx, gradient, added, _sums):
        images, weights = ctx.saved_tensors
        size, how = tuple(images.shape[-2:]), (ctx.stride, ctx.padding)
        to_images = to_weights = None
        if ctx.needs_input_grad[0]:
            to_images = _ImagesGradient.apply(gradient, weights, size, *how, added)
        if ctx.needs_input_grad[1]:
            to_weights = _WeightsGradient.apply(gradient, images, weights.shape[-1], *how)
        return to_images, to_weights, None, None, None

    @staticmethod
    def vmap(info, dimensions, images, *given):
        (out, sums), _ = _lanes(convolution.forward, info, dimensions, images, *given)
        return (out, images.view_as(images), sums), (0, dimensions[0], 0)


def _normalisation(kernels) -> type[Function]:
    """(B, C, H, W) normalised, rectified or not, with the mean and variance that were used.

    `residual`, if not None, is added before rectifying, and `sums` are those of the images if they
    are known; `how` is what the kernels need besides.
    """
    to_inputs = _gradient(kernels.backward)

    class Normalisation(Function):
        @staticmethod
        def forward(images, weight, bias, residual, sums, *how):
            return _one_lane(kernels.forward, images, weight, bias, residual, sums, *how)

        @staticmethod
        def setup_context(ctx, inputs, output) -> None:
            images, weight, bias, residual, _, *ctx.how = inputs
            ctx.with_residual = residual is not None
            ctx.save_for_backward(images, weight, bias, *output)
            ctx.mark_non_differentiable(*output[1:])

        @staticmethod
        def backward(ctx, gradient, _mean, _variance):
            found = to_inputs.apply(gradient, *ctx.saved_tensors, ctx.with_residual, *ctx.how)
            images, residual, weight, bias = found
            added = residual if ctx.with_residual else None
            return images, weight, bias, added, None, *[None] * len(ctx.how)

        @staticmethod
        def vmap(info, dimensions, *given):
            return _lanes(kernels.forward, info, dimensions, *given)

    return Normalisation


BatchNormalisation = _normalisation(batch_normalisation)
GroupNormalisation = _normalisation(group_normalisation)


_PoolingGradient = _gradient(pooling.backward)


class MaxPooling(Function):
    """Largest numbers of squares of (B, C, H, W), and the number of the pixel that each is from."""

    @staticmethod
    def forward(images, size: int, stride: int, padding: int):
        return _one_lane(pooling.forward, images, size, stride, padding)

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        images, *ctx.how = inputs
        ctx.size = tuple(images.shape[-2:])
        ctx.save_for_backward(output[1])
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def backward(ctx, gradient, _origin):
        found = _PoolingGradient.apply(gradient, *ctx.saved_tensors, ctx.size, *ctx.how)
        return found, None, None, None

    @staticmethod
    def vmap(info, dimensions, *given):
        return _lanes(pooling.forward, info, dimensions, *given)
