"""Dropout whose draws are functions of (seed, client, step), not of a generator's state.

With a generator, the draws of a job depend on the jobs trained before it, and a run on the number
of lanes. Here every call of a dropout function of `torch.nn.functional`, by a layer or directly,
takes its mask from the key of the current step, as in training with few bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from math import sqrt
from typing import Any

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
        """Replace the dropout functions."""
        how, given = _KINDS.get(func), kwargs or {}
        if how is None:
            return func(*args, **given)
        return _replaced(self, *args, **{**given, **how, "original": func})

    def mask(self, like: Tensor, p: float, *, features: bool) -> Tensor:
        """1 for each number that is kept, or with `features` for each channel; else 0."""
        shape = (*like.shape[:2], *[1] * (like.ndim - 2)) if features else tuple(like.shape)
        place = _FIRST_PLACE + self.calls
        self.calls += 1
        return keep_mask(self._key, place, shape, p).to(like.dtype)


@contextmanager
def drawing(draws: Draws | None, key: Tensor | None, dropout: bool) -> Iterator[None]:
    """Draw from this key in a forward pass, by default from that of the current step."""
    if draws is None:
        yield
        return
    key = draws.key if key is None else key
    with draws.by(key), KeyedDropout(key) if dropout else nullcontext():
        yield


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
    found = dropped(batch, mode.mask(batch, p, features=features), p, inplace)
    return found.squeeze(0) if input.ndim == unbatched else found


_SELU = {"dropped": _alpha_dropped, "by_default": False}
_KINDS: Mapping[Callable[..., Any], Mapping[str, Any]] = {
    functional.dropout: {},
    functional.dropout1d: {"features": True, "unbatched": 2},
    functional.dropout2d: {"features": True},
    functional.dropout3d: {"features": True, "unbatched": 4},
    functional.alpha_dropout: _SELU,
    functional.feature_alpha_dropout: {**_SELU, "features": True},
}
