"""The kernels as functions with gradients, to be called inside `vmap`.

Each is a pair. The inner function, of tensors with a dimension of lanes, has the gradients. The
outer one is called by the layer of one lane, and `vmap` lets it call the inner one for all lanes.
"""

from __future__ import annotations

from torch import Tensor
from torch.autograd import Function

from favano.training.gpu_kernels import (
    batch_normalisation,
    convolution,
    group_normalisation,
    lstm,
    pooling,
    weights_gradient,
)


def _per_lane(inner: type[Function]) -> type[Function]:
    """The function of one lane; tensors that all lanes share are repeated as views."""

    class PerLane(Function):
        @staticmethod
        def forward(*given):
            raise NotImplementedError("kernels of lanes are for use inside vmap")

        @staticmethod
        def setup_context(ctx, inputs, output) -> None:
            pass

        @staticmethod
        def vmap(info, dimensions, *given):
            def stacked(value, lane):
                if not isinstance(value, Tensor):
                    return value
                if lane is None:
                    return value.expand(info.batch_size, *value.shape)
                return value.movedim(lane, 0)

            found = inner.apply(*map(stacked, given, dimensions))
            return found, (0,) * len(found)

    return PerLane


class _Convolution(Function):
    @staticmethod
    def forward(images, weights, size, stride: int, padding: int):
        out, sums = convolution.forward(images, weights, size, stride, padding)
        return out, images.view_as(images), sums

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        images, weights, _, *ctx.how = inputs
        ctx.save_for_backward(images, weights)
        ctx.mark_non_differentiable(output[2])
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx, gradient, added, _sums):
        images, weights = ctx.saved_tensors
        to_images = to_weights = None
        if ctx.needs_input_grad[0]:
            size = tuple(images.shape[-2:])
            to_images = convolution.images_gradient(gradient, weights, size, *ctx.how, added)
        if ctx.needs_input_grad[1]:
            to_weights = weights_gradient.weights_gradient(
                gradient, images, weights.shape[-1], *ctx.how
            )
        return to_images, to_weights, None, None, None


def _normalisation(kernels) -> type[Function]:
    class Normalisation(Function):
        @staticmethod
        def forward(images, weight, bias, residual, sums, *how):
            return tuple(kernels.forward(images, weight, bias, residual, sums, *how))

        @staticmethod
        def setup_context(ctx, inputs, output) -> None:
            images, weight, bias, residual, _, *ctx.how = inputs
            ctx.with_residual = residual is not None
            ctx.save_for_backward(images, weight, bias, *output)
            ctx.mark_non_differentiable(*output[1:])

        @staticmethod
        def backward(ctx, gradient, _mean, _variance):
            found = kernels.backward(gradient, *ctx.saved_tensors, ctx.with_residual, *ctx.how)
            added = found.residual if ctx.with_residual else None
            return found.images, found.weight, found.bias, added, None, *[None] * len(ctx.how)

    return Normalisation


class _MaxPooling(Function):
    @staticmethod
    def forward(images, size: int, stride: int, padding: int):
        return tuple(pooling.forward(images, size, stride, padding))

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        images, *ctx.how = inputs
        ctx.size = tuple(images.shape[-2:])
        ctx.save_for_backward(output[1])
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def backward(ctx, gradient, _origin):
        found = pooling.backward(gradient, *ctx.saved_tensors, ctx.size, *ctx.how)
        return found, None, None, None


class _Cell(Function):
    @staticmethod
    def forward(given, recurrent, cell):
        return tuple(lstm.forward(given, recurrent, cell))

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        _, after, gates = output
        ctx.save_for_backward(gates, inputs[2], after)
        ctx.mark_non_differentiable(gates)

    @staticmethod
    def backward(ctx, to_hidden, to_cell, _gates):
        to_sums, to_before = lstm.backward(to_hidden, to_cell, *ctx.saved_tensors)
        return to_sums, to_sums, to_before


Convolution = _per_lane(_Convolution)
"""Convolution of images (B, I, H, W) with weights (O, I, k, k) to (B, O, *size).

It also hands on the images, for whatever else they are used for: the gradient of that is added by
the kernel of this one. Third are sums of the result for a batch normalisation.
"""

BatchNormalisation = _per_lane(_normalisation(batch_normalisation))
"""(B, C, H, W) normalised, rectified or not, with the mean and variance that were used.

`residual`, if not None, is added before rectifying, and `sums` are those of the images if they are
known. The same for groups of channels:
"""
GroupNormalisation = _per_lane(_normalisation(group_normalisation))

MaxPooling = _per_lane(_MaxPooling)
"""Largest numbers of squares of (B, C, H, W), and the number of the pixel that each is from."""

LstmCell = _per_lane(_Cell)
"""Hidden states, cells and gates after a step, from both sums (B, 4 H) and the cells (B, H)."""
