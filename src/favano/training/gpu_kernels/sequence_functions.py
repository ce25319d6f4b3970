"""The kernels of transformers as functions of autograd. Tensors begin with a dimension of lanes."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.autograd import Function

from favano.training.gpu_kernels import attention, dropout, layer_normalisation, linear
from favano.training.gpu_kernels.attention import Pattern
from favano.training.gpu_kernels.functions import for_all_lanes
from favano.training.gpu_kernels.rows import as_rows, empty_like, order_of


@for_all_lanes
class Linear(Function):
    """Inputs (L, ..., K) times weights (L, N, K)' plus biases (L, N), which may be None."""

    @staticmethod
    def forward(inputs, weights, bias):
        order = order_of(inputs)
        out = empty_like(inputs, order, weights.shape[1])
        linear.forward(as_rows(inputs, order), weights, bias, as_rows(out, order))
        return out

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        ctx.save_for_backward(*inputs[:2])

    @staticmethod
    def backward(ctx, gradient):
        inputs, weights = ctx.saved_tensors
        order = order_of(inputs)
        wanted, *others = ctx.needs_input_grad
        to_inputs = empty_like(inputs, order, inputs.shape[-1]) if wanted else None
        to_rows = as_rows(to_inputs, order) if wanted else None
        return to_inputs, *linear.backward(
            as_rows(gradient, order), as_rows(inputs, order), weights, to_rows, *others
        )


@for_all_lanes
class LayerNormalisation(Function):
    """Inputs (L, ..., E) normalised, with weights and biases (L, E), which may be None."""

    @staticmethod
    def forward(inputs, weight, bias, epsilon: float):
        order = order_of(inputs)
        out = empty_like(inputs, order, inputs.shape[-1])
        rows, results = as_rows(inputs, order), as_rows(out, order)
        layer_normalisation.forward(rows, weight, bias, results, epsilon)
        return out

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        *given, ctx.epsilon = inputs
        ctx.save_for_backward(*given)

    @staticmethod
    def backward(ctx, gradient):
        inputs, weight, bias = ctx.saved_tensors
        order = order_of(inputs)
        to_inputs = empty_like(inputs, order, inputs.shape[-1])
        to_weight, to_bias = layer_normalisation.backward(
            *(as_rows(tensor, order) for tensor in (gradient, inputs)),
            *(weight, as_rows(to_inputs, order), ctx.epsilon),
        )
        return (
            to_inputs,
            None if weight is None else to_weight.to(weight.dtype),
            None if bias is None else to_bias.to(bias.dtype),
            None,
        )


@for_all_lanes
class Dropout(Function):
    """Values (L, ...) by draws from the keys (L,) of a step."""

    @staticmethod
    def forward(values, step_keys, draw: int, p: float):
        return dropout.dropped(values, step_keys, draw, p)

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        _, step_keys, *ctx.how = inputs
        ctx.save_for_backward(step_keys)

    @staticmethod
    def backward(ctx, gradient):
        return dropout.dropped(gradient, *ctx.saved_tensors, *ctx.how), None, None, None


@for_all_lanes
class Attention(Function):
    """Attention of queries (L, B, H, S, D) to keys and values; for the others see `Pattern`."""

    @staticmethod
    def forward(query, key, value, mask, step_keys, scale, causal, drop, draw):
        pattern = Pattern(scale, mask, causal, drop, step_keys, draw)
        out = _positions_first(query)
        attention.forward((query, key, value), pattern, out)
        return out

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        *tensors, ctx.scale, ctx.causal, ctx.drop, ctx.draw = inputs
        ctx.save_for_backward(*tensors)

    @staticmethod
    def backward(ctx, gradient):
        *heads, mask, step_keys = ctx.saved_tensors
        pattern = Pattern(ctx.scale, mask, ctx.causal, ctx.drop, step_keys, ctx.draw)
        to_heads = tuple(map(_positions_first, heads))
        to_mask = torch.empty_like(mask) if ctx.needs_input_grad[3] else None
        attention.backward(gradient, tuple(heads), pattern, to_heads, to_mask)
        return *to_heads, to_mask, None, None, None, None, None


@for_all_lanes
class SelfAttention(Function):
    """The same of queries, keys and values that lie beside each other, (L, B, S, 3 H D)."""

    @staticmethod
    def forward(packed, mask, step_keys, count: int, scale, causal, drop, draw):
        out = empty_like(packed, order_of(packed), packed.shape[-1] // 3)
        pattern = Pattern(scale, mask, causal, drop, step_keys, draw)
        attention.forward(
            _heads(packed, count), pattern, out.unflatten(-1, (count, -1)).transpose(2, 3)
        )
        return out

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        packed, mask, step_keys, *ctx.how = inputs
        ctx.save_for_backward(packed, mask, step_keys)

    @staticmethod
    def backward(ctx, gradient):
        packed, mask, step_keys = ctx.saved_tensors
        count, scale, causal, drop, draw = ctx.how
        pattern = Pattern(scale, mask, causal, drop, step_keys, draw)
        to_packed = torch.empty_like(packed)
        to_mask = torch.empty_like(mask) if ctx.needs_input_grad[1] else None
        attention.backward(
            gradient.unflatten(-1, (count, -1)).transpose(2, 3),
            _heads(packed, count), pattern, _heads(to_packed, count), to_mask,
        )  # fmt: skip
        return to_packed, to_mask, *[None] * 6


def _heads(packed: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Views of (L, B, S, 3 H D) as queries, keys and values (L, B, H, S, D)."""
    query, key, value = packed.unflatten(-1, (3, count, -1)).permute(3, 0, 1, 4, 2, 5).unbind()
    return query, key, value


def _positions_first(heads: Tensor) -> Tensor:
    """Memory for (L, B, H, S, D) where the heads of a position lie beside each other."""
    return empty_like(heads, [0, 1, 3, 2, 4], heads.shape[-1])
