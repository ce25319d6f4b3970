"""Functions of PyTorch that are fast for many lanes, in place of PyTorch's own.

Whoever calls them, a layer or a network's own code, gets the kernels, if there are any for these
tensors. Otherwise PyTorch's own functions are called, under `vmap`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch._C._functorch import is_batchedtensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from favano.notices import notice
from favano.training.dropout import MANY_HEADS, KeyedDropout
from favano.training.gpu_kernels.attention import fits as fits_attention
from favano.training.gpu_kernels.blocks import products_of
from favano.training.gpu_kernels.layer_normalisation import WIDEST as WIDEST_ROW
from favano.training.gpu_kernels.sequence_functions import (
    Attention,
    Dropout,
    LayerNormalisation,
    Linear,
    SelfAttention,
)

_FEWEST_ROWS = 256  # of a lane; with fewer, a product is limited by reading the weights
_MOST_FEATURES = 1024  # with more, a library's products are faster
_TYPES = (torch.float32, torch.bfloat16)


class LaneFunctions(TorchFunctionMode):
    """While it is active, linear layers, layer normalisation, attention and dropout have kernels.

    With `dropout`, what is dropped is drawn as there.
    """

    def __init__(self, dropout: KeyedDropout | None = None) -> None:
        super().__init__()
        self.dropout = dropout

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Replace the functions that have kernels."""
        replacement = _REPLACEMENTS.get(func)
        if replacement is None:
            return func(*args, **(kwargs or {}))
        return replacement(self, *args, **(kwargs or {}))

    def draws(self, p: float) -> tuple[Tensor | None, int]:
        """Key and place of the next draws, if there are any."""
        return (None, 0) if self.dropout is None or not p else self.dropout.next_draws()


@cache
def _say_slow(what: str) -> None:
    """Once."""
    notice(f"{what} has no kernel for lanes, so steps take longer")


def _alike(*tensors: Tensor | None) -> bool:
    """Whether the tensors there are have one type, for which there are kernels."""
    dtypes = {tensor.dtype for tensor in tensors if tensor is not None}
    return len(dtypes) == 1 and dtypes <= {*_TYPES}


def _linear(
    mode: LaneFunctions, input: Tensor, weight: Tensor, bias: Tensor | None = None
) -> Tensor:
    """A product of many rows with weights of each lane."""
    fits = (
        is_batchedtensor(weight)  # others are shared by the lanes: one product for all
        and input.ndim > 2
        and input.shape[:-1].numel() >= _FEWEST_ROWS
        and weight.ndim == 2
        and max(weight.shape) <= _MOST_FEATURES
        and input.shape[-1] == weight.shape[1]
        and _alike(input, weight, bias)
        and products_of(input) != "float32"
    )
    out: Tensor = (
        Linear.apply(input, weight, bias)  # type: ignore[no-untyped-call]
        if fits
        else functional.linear(input, weight, bias)
    )
    return out


def _layer_norm(
    mode: LaneFunctions,
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Normalised rows of (..., E)."""
    fits = (
        is_batchedtensor(input)
        and input.ndim > 1
        and input.numel() > 0
        and tuple(normalized_shape) == tuple(input.shape[-1:])
        and input.shape[-1] <= WIDEST_ROW
        and all(part is None or part.shape == input.shape[-1:] for part in (weight, bias))
        and _alike(input)
    )
    if not fits:
        if is_batchedtensor(input):
            _say_slow(f"layer normalisation of {tuple(normalized_shape)} numbers, {input.dtype}")
        return functional.layer_norm(input, normalized_shape, weight, bias, eps)
    out: Tensor = LayerNormalisation.apply(  # type: ignore[no-untyped-call]
        input, weight, bias, eps
    )
    return out


def _dropout(
    mode: LaneFunctions,
    input: Tensor,
    p: float = 0.5,
    training: bool = True,
    inplace: bool = False,
) -> Tensor:
    """Dropout by the draws of the step."""
    fits = is_batchedtensor(input) and input.numel() > 0 and _alike(input) and not inplace
    if mode.dropout is None or not training or not 0 < p <= 1 or not fits:
        return functional.dropout(input, p, training, inplace)
    out: Tensor = Dropout.apply(input, *mode.draws(p), p)  # type: ignore[no-untyped-call]
    return out


def _can_attend(mode: LaneFunctions, query: Tensor, keys: int, size: int, drop: float) -> bool:
    """Whether there is a kernel for heads of this size, and a key for what is dropped."""
    there = is_batchedtensor(query) and query.numel() > 0 and keys > 0
    drawn = 0 <= drop <= 1 and (not drop or mode.dropout is not None)
    return there and drawn and fits_attention(query, keys, size)


def _attention(
    mode: LaneFunctions,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """dropout(softmax(scale query key^T + mask)) value of (B, H, S, D) or (B, S, D)."""
    size = query.shape[-1]
    fits = (
        query.ndim in (3, 4)
        and query.shape[:-2] == key.shape[:-2]
        and key.shape == value.shape
        and size == key.shape[-1]
        and _alike(query, key, value)
        and not (is_causal and attn_mask is not None)
        and _can_attend(mode, query, key.shape[-2], size, dropout_p)
    )
    if not fits:
        if is_batchedtensor(query):
            shape = f"of {query.shape[-2]} queries to {key.shape[-2]} keys, heads of {size}"
            _say_slow(f"attention {shape}, {query.dtype},")
        given = attn_mask, dropout_p, is_causal
        return functional.scaled_dot_product_attention(
            query, key, value, *given, scale=scale, enable_gqa=enable_gqa
        )
    if attn_mask is not None:
        attn_mask = attn_mask.expand(*query.shape[:-1], key.shape[-2])
    single = query.ndim == 3  # one head without a dimension of its own
    heads = (part.unsqueeze(1) if single and part is not None else part
             for part in (query, key, value, attn_mask))  # fmt: skip
    step_keys, draw = mode.draws(dropout_p)
    scale = size**-0.5 if scale is None else scale
    out: Tensor = Attention.apply(  # type: ignore[no-untyped-call]
        *heads, step_keys, scale, is_causal, dropout_p, draw
    )
    return out.squeeze(1) if single else out


def _many_heads(
    mode: LaneFunctions,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    **others: Any,
) -> tuple[Tensor, Tensor | None]:
    """Attention of a sequence (S, B, E) to itself; other cases are made of smaller functions."""
    drop, width = dropout_p if training else 0.0, query.shape[-1]
    fits = (
        query is key is value
        and query.ndim == 3
        and width == embed_dim_to_check
        and width % num_heads == 0
        and not (need_weights or add_zero_attn or use_separate_proj_weight)
        and bias_k is None
        and bias_v is None
        and others.get("static_k") is None
        and others.get("static_v") is None
        and not (others.get("is_causal") and attn_mask is None)
        and _alike(query, in_proj_weight)
        and _can_attend(mode, query, len(query), width // num_heads, drop)
    )
    if not fits or in_proj_weight is None:
        if need_weights and is_batchedtensor(query):
            _say_slow("attention with need_weights=True")
        with mode:  # whose functions are called in turn
            whole: tuple[Tensor, Tensor | None] = MANY_HEADS(
                *(query, key, value, embed_dim_to_check, num_heads, in_proj_weight, in_proj_bias),
                *(bias_k, bias_v, add_zero_attn, dropout_p, out_proj_weight, out_proj_bias),
                *(training, key_padding_mask, need_weights, attn_mask, use_separate_proj_weight),
                **others,
            )
        return whole
    packed = _linear(mode, query, in_proj_weight, in_proj_bias).transpose(0, 1)
    mask = _common_mask(packed, num_heads, attn_mask, key_padding_mask)
    scale = (width // num_heads) ** -0.5
    step_keys, draw = mode.draws(drop)
    out = SelfAttention.apply(  # type: ignore[no-untyped-call]
        packed, mask, step_keys, num_heads, scale, False, drop, draw
    )
    return _linear(mode, out.transpose(0, 1), out_proj_weight, out_proj_bias), None


def _common_mask(
    packed: Tensor, heads: int, attention: Tensor | None, padding: Tensor | None
) -> Tensor | None:
    """Both masks of `nn.MultiheadAttention` as one, (B, H, S, S), which is added to the scores."""
    batch, length = packed.shape[:2]
    shape = batch, heads, length, length
    masks = []
    if attention is not None:  # (S, S) or (B H, S, S)
        masks.append(attention.view(shape) if attention.ndim == 3 else attention.expand(shape))
    if padding is not None:  # (B, S)
        masks.append(padding.view(batch, 1, 1, length).expand(shape))
    if all(mask.dtype == torch.bool for mask in masks):
        hidden = [~mask for mask in masks]  # True hides there, and shows here
        return None if not masks else hidden[0] if len(hidden) == 1 else hidden[0] & hidden[1]
    added = [
        torch.zeros_like(mask, dtype=packed.dtype).masked_fill(mask, -torch.inf)
        if mask.dtype == torch.bool
        else mask
        for mask in masks
    ]
    return added[0] if len(added) == 1 else added[0] + added[1]


_REPLACEMENTS: Mapping[Callable[..., Any], Callable[..., Any]] = {
    functional.linear: _linear,
    functional.layer_norm: _layer_norm,
    functional.dropout: _dropout,
    functional.scaled_dot_product_attention: _attention,
    functional.multi_head_attention_forward: _many_heads,
}
