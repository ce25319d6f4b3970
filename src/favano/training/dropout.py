"""Dropout whose draws are functions of (seed, client, step), not of a generator's state.

With a generator, the draws of a job depend on the jobs trained before it, and a run on the number
of lanes. Here every call of a dropout function of `torch.nn.functional`, by a layer or directly,
takes its mask from the key of the current step, as in low-precision training. So does dropout
inside attention and between recurrent layers, which PyTorch's own kernels would draw.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from math import sqrt
from types import FunctionType
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from favano.quantisation import Draws, keep_mask

_FIRST_PLACE = 2**40  # first draw of dropout in a step; those of quantised layers are below
_ALPHA = 1.7580993408473766  # minus the limit of SELU, as in PyTorch


class KeyedDropout(TorchFunctionMode):
    """While it is active, dropout draws from a key, differently in each call of a step."""

    def __init__(self, key: Tensor) -> None:
        super().__init__()
        self._key, self.calls = key, 0

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Replace the functions that draw."""
        replacement = _REPLACEMENTS.get(func)
        if replacement is None:
            return func(*args, **(kwargs or {}))
        return replacement(self, *args, **(kwargs or {}))

    def mask(self, like: Tensor, p: float, *, features: bool) -> Tensor:
        """1 for each number that is kept, or with `features` for each channel; else 0."""
        shape = (*like.shape[:2], *[1] * (like.ndim - 2)) if features else tuple(like.shape)
        return keep_mask(*self.next_draws(), shape, p).to(like.dtype)

    def next_draws(self) -> tuple[Tensor, int]:
        """The key, and the place of the next call's draws."""
        self.calls += 1
        return self._key, _FIRST_PLACE + self.calls - 1


@contextmanager
def drawing(
    draws: Draws | None, key: Tensor | None, dropout: bool
) -> Iterator[KeyedDropout | None]:
    """Draw from this key in a forward pass, by default from that of the current step."""
    if draws is None:
        yield None
        return
    key = draws.key if key is None else key
    with draws.by(key), KeyedDropout(key) if dropout else nullcontext() as keyed:
        yield keyed


def _dropped(values: Tensor, mask: Tensor, p: float, inplace: bool) -> Tensor:
    """x mask / (1 - p)."""
    factor = mask * (1.0 / (1.0 - p) if p < 1 else 0.0)
    return values.mul_(factor) if inplace else values * factor


def _alpha_dropped(values: Tensor, mask: Tensor, p: float, inplace: bool) -> Tensor:
    """a (x mask - alpha (1 - mask)) + a alpha p: keeps mean and variance of a SELU's output."""
    scale = 1.0 / sqrt((_ALPHA**2 * p + 1.0) * (1.0 - p)) if p < 1 else 0.0
    shift = (mask - 1.0 + p) * (_ALPHA * scale)
    return (values.mul_ if inplace else values.mul)(mask * scale).add_(shift)


def _replaced(
    mode: KeyedDropout,
    input: Tensor,
    p: float = 0.5,
    training: bool | None = None,
    inplace: bool = False,
    *,
    original: Callable[..., Tensor],
    by_default: bool = True,  # `training` if it is not given
    dropped: Callable[[Tensor, Tensor, float, bool], Tensor] = _dropped,
    features: bool = False,
    unbatched: int = 0,  # number of dimensions of an input without a batch
) -> Tensor:
    """Dropout with the mode's key; PyTorch's own if nothing is to be drawn, or p is invalid."""
    training = by_default if training is None else training
    if not training or not 0 < p <= 1 or not input.numel() or (features and input.ndim < 2):
        return original(input, p, training, inplace)
    batch = input.unsqueeze(0) if input.ndim == unbatched else input
    output = dropped(batch, mode.mask(batch, p, features=features), p, inplace)
    return output.squeeze(0) if input.ndim == unbatched else output


def _attention(
    mode: KeyedDropout,
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
    """dropout(softmax(scale query key^T + mask)) value; PyTorch's own if nothing is drawn."""
    if not 0 < dropout_p <= 1 or (is_causal and attn_mask is not None):
        given = attn_mask, dropout_p, is_causal
        return functional.scaled_dot_product_attention(
            query, key, value, *given, scale=scale, enable_gqa=enable_gqa
        )
    if enable_gqa:  # several heads of queries share one of keys
        key, value = (x.repeat_interleave(query.shape[-3] // x.shape[-3], -3) for x in (key, value))
    scores = query @ key.mT * (query.shape[-1] ** -0.5 if scale is None else scale)
    if is_causal:
        attn_mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
    if attn_mask is not None:
        hidden = attn_mask.dtype == torch.bool
        scores = scores.masked_fill(~attn_mask, -torch.inf) if hidden else scores + attn_mask
    weights = torch._safe_softmax(scores, -1)  # zeros for a query that sees no key
    return (
        _dropped(weights, mode.mask(weights, dropout_p, features=False), dropout_p, False) @ value
    )


# PyTorch's attention of many heads, which calls the two functions above while the mode is active.
MANY_HEADS = FunctionType(
    functional.multi_head_attention_forward.__code__,
    {**vars(functional), "has_torch_function": lambda given: False},
    argdefs=functional.multi_head_attention_forward.__defaults__,
)


def _many_heads(mode: KeyedDropout, *args: Any, **kwargs: Any) -> Any:
    with mode:
        return MANY_HEADS(*args, **kwargs)


def _recurrent(mode: KeyedDropout, *given: Any, original: Callable[..., Any]) -> tuple[Tensor, ...]:
    """All layers of an LSTM, GRU or RNN, one by one, with dropout in between.

    `given` are a sequence, the lengths if it is packed, the states of all layers, weights, whether
    there are biases, layers, p, training, whether both ways, and, unless packed, batch first.
    """
    packed = not isinstance(given[3], bool)
    sequence, states, weights, biases, layers, p, training, both, *first = (
        (given[0], *given[2:]) if packed else given
    )
    if not training or not p or layers == 1:
        return cast(tuple[Tensor, ...], original(*given))
    turned, single = bool(first and first[0]), isinstance(states, Tensor)
    starts = zip(*(part.chunk(layers) for part in ([states] if single else states)), strict=True)
    each, ends = len(weights) // layers, []
    for layer, start in enumerate(starts):
        if layer:  # in the order of time, as in lanes
            steps = sequence.transpose(0, 1) if turned else sequence
            steps = _dropped(steps, mode.mask(steps, p, features=False), p, False)
            sequence = steps.transpose(0, 1) if turned else steps
        sequence, *end = original(
            sequence,
            *given[1 : 1 + packed],
            start[0] if single else list(start),
            weights[layer * each : (layer + 1) * each],
            *(biases, 1, 0.0, training, both, *first),
        )
        ends.append(end)
    return (sequence, *(torch.cat(parts) for parts in zip(*ends, strict=True)))


_SELU = {"dropped": _alpha_dropped, "by_default": False}
_KINDS: Mapping[Callable[..., Any], Mapping[str, Any]] = {
    functional.dropout: {},
    functional.dropout1d: {"features": True, "unbatched": 2},
    functional.dropout2d: {"features": True},
    functional.dropout3d: {"features": True, "unbatched": 4},
    functional.alpha_dropout: _SELU,
    functional.feature_alpha_dropout: {**_SELU, "features": True},
}
_RECURRENT: Sequence[Callable[..., Any]] = (torch.lstm, torch.gru, torch.rnn_tanh, torch.rnn_relu)
_REPLACEMENTS: Mapping[Callable[..., Any], Callable[..., Any]] = {
    **{function: partial(_replaced, original=function, **how) for function, how in _KINDS.items()},
    **{function: partial(_recurrent, original=function) for function in _RECURRENT},
    functional.scaled_dot_product_attention: _attention,
    functional.multi_head_attention_forward: _many_heads,
}
