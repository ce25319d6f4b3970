"""The kernels as functions that `torch.func.grad` and `vmap` understand."""

from __future__ import annotations

from torch import Tensor
from torch.autograd import Function

from favano.training.gpu_kernels import convolution, normalisation


def _stacked(info, dimensions, *tensors: Tensor) -> list[Tensor]:
    """Tensors with their lanes first; those that all lanes share are repeated as views."""
    return [
        tensor.expand(info.batch_size, *tensor.shape) if lane is None else tensor.movedim(lane, 0)
        for tensor, lane in zip(tensors, dimensions, strict=False)
    ]


class Convolution(Function):
    """Convolution of images (B, I, H, W) with weights (O, I, k, k)."""

    @staticmethod
    def forward(images: Tensor, weights: Tensor, stride: int, padding: int) -> Tensor:
        return convolution.forward(images[None], weights[None], stride, padding)[0]

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
            to_images = _ImagesGradient.apply(gradient, weights, size, *how)
        if ctx.needs_input_grad[1]:
            to_weights = _WeightsGradient.apply(gradient, images, weights.shape[-1], *how)
        return to_images, to_weights, None, None

    @staticmethod
    def vmap(info, dimensions, images, weights, stride, padding):
        stacked = _stacked(info, dimensions, images, weights)
        return convolution.forward(*stacked, stride, padding), 0


class _ImagesGradient(Function):
    @staticmethod
    def forward(gradient, weights, size, stride, padding):
        return convolution.images_gradient(gradient[None], weights[None], size, stride, padding)[0]

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        """Nothing is kept: there is no second derivative."""

    @staticmethod
    def vmap(info, dimensions, gradient, weights, size, stride, padding):
        stacked = _stacked(info, dimensions, gradient, weights)
        return convolution.images_gradient(*stacked, size, stride, padding), 0


class _WeightsGradient(Function):
    @staticmethod
    def forward(gradient, images, size, stride, padding):
        return convolution.weights_gradient(gradient[None], images[None], size, stride, padding)[0]

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        """Nothing is kept: there is no second derivative."""

    @staticmethod
    def vmap(info, dimensions, gradient, images, size, stride, padding):
        stacked = _stacked(info, dimensions, gradient, images)
        return convolution.weights_gradient(*stacked, size, stride, padding), 0


class BatchNormalisation(Function):
    """(B, C, H, W) normalised, rectified or not, with the batch's mean and variance.

    `residual`, if not None, is added before rectifying.
    """

    @staticmethod
    def forward(images, weight, bias, residual, relu: bool, epsilon: float):
        added = None if residual is None else residual[None]
        done = normalisation.forward(
            images[None], weight[None], bias[None], added, relu=relu, epsilon=epsilon
        )
        return tuple(part[0] for part in done)

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        images, weight, bias, residual, ctx.relu, ctx.epsilon = inputs
        ctx.with_residual = residual is not None
        ctx.save_for_backward(images, weight, bias, *output)
        ctx.mark_non_differentiable(*output[1:])

    @staticmethod
    def backward(ctx, gradient, _mean, _variance):
        how = (ctx.with_residual, ctx.relu, ctx.epsilon)
        images, residual, weight, bias = _Gradients.apply(gradient, *ctx.saved_tensors, *how)
        return images, weight, bias, residual if ctx.with_residual else None, None, None

    @staticmethod
    def vmap(info, dimensions, images, weight, bias, residual, relu, epsilon):
        given = [images, weight, bias] + ([] if residual is None else [residual])
        stacked = _stacked(info, dimensions, *given)
        added = None if residual is None else stacked[3]
        done = normalisation.forward(*stacked[:3], added, relu=relu, epsilon=epsilon)
        return tuple(done), (0, 0, 0)


class _Gradients(Function):
    @staticmethod
    def forward(gradient, images, weight, bias, out, mean, variance, with_residual, relu, epsilon):
        done = normalisation.Normalised(out[None], mean[None], variance[None])
        found = normalisation.backward(
            gradient[None], images[None], weight[None], bias[None], done,
            with_residual=with_residual, relu=relu, epsilon=epsilon,
        )  # fmt: skip
        return tuple(part[0] for part in found)

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        """Nothing is kept: there is no second derivative."""

    @staticmethod
    def vmap(info, dimensions, *given):
        stacked = _stacked(info, dimensions, *given[:7])
        with_residual, relu, epsilon = given[7:]
        found = normalisation.backward(
            *stacked[:4], normalisation.Normalised(*stacked[4:]),
            with_residual=with_residual, relu=relu, epsilon=epsilon,
        )  # fmt: skip
        return tuple(found), (0, 0, 0, 0)
