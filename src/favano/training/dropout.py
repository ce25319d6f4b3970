"""Dropout whose draws are functions of (seed, client, step), not of a generator's state.

A generator gives the next job its numbers in the order in which jobs are trained, so a run would
depend on the number of lanes. Here every call of a dropout function of `torch.nn.functional`, by a
layer or by hand, takes its mask from the key of the current step, as few-bit training does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from math import sqrt
from typing import Any

from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from favano.quantisation import Draws, keep_mask

_FIRST_PLACE = 2**40  # of dropout in a step; the places of few-bit layers are below
_ALPHA = 1.7580993408473766  # minus the limit of SELU, as in PyTorch


class KeyedDropout(TorchFunctionMode):
    """While active, dropout draws by a key; each call within a step has its own draws."""

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
        """Replace the dropout functions that have something to draw."""
        rule = _RULES.get(func)
        given = kwargs or {}
        if rule is None:
            return func(*args, **given)
        return rule(self, *args, **given)

    def mask(self, like: Tensor, p: float, *, features: bool) -> Tensor:
        """1 where a number is kept, or with `features` a whole channel; 0 elsewhere."""
        shape = (*like.shape[:2], *[1] * (like.ndim - 2)) if features else tuple(like.shape)
        place = _FIRST_PLACE + self.calls
        self.calls += 1
        return keep_mask(self._key, place, shape, p).to(like.dtype)


def drawing(draws: Draws | None, key: Tensor | None, dropout: bool) -> AbstractContextManager[None]:
    """For a forward pass: draw by a key, or by that of the current step."""
    return nullcontext() if draws is None else _drawing(draws, key, dropout)


@contextmanager
def _drawing(draws: Draws, key: Tensor | None, dropout: bool) -> Iterator[None]:
    key = draws.key if key is None else key
    with draws.by(key), KeyedDropout(key) if dropout else nullcontext():
        yield


def _dropped(values: Tensor, mask: Tensor, p: float, inplace: bool) -> Tensor:
    """x mask / (1 - p)."""
    factor = mask * (1.0 / (1.0 - p) if p < 1 else 0.0)
    return values.mul_(factor) if inplace else values * factor


def _alpha_dropped(values: Tensor, mask: Tensor, p: float, inplace: bool) -> Tensor:
    """a (x mask - alpha (1 - mask)) + a alpha p: mean and variance of a SELU's output stay."""
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
    by_default: bool = True,  # value of `training` if not given
    dropped: Callable[[Tensor, Tensor, float, bool], Tensor] = _dropped,
    features: bool = False,
    unbatched: int = 0,  # dimensions of an input without a batch
) -> Tensor:
    """Dropout by the mode's key; PyTorch's own if there is nothing to draw or p is invalid."""
    training = by_default if training is None else training
    if not training or not 0 < p <= 1 or not input.numel() or (features and input.ndim < 2):
        return original(input, p, training, inplace)
    batch = input.unsqueeze(0) if input.ndim == unbatched else input
    found = dropped(batch, mode.mask(batch, p, features=features), p, inplace)
    return found.squeeze(0) if input.ndim == unbatched else found


def _rule(original: Callable[..., Tensor], **how: Any) -> Callable[..., Tensor]:
    return partial(_replaced, original=original, **how)


_ALPHA_RULE = {"dropped": _alpha_dropped, "by_default": False}
_RULES: Mapping[Callable[..., Any], Callable[..., Tensor]] = {
    functional.dropout: _rule(functional.dropout),
    functional.dropout1d: _rule(functional.dropout1d, features=True, unbatched=2),
    functional.dropout2d: _rule(functional.dropout2d, features=True),
    functional.dropout3d: _rule(functional.dropout3d, features=True, unbatched=4),
    functional.alpha_dropout: _rule(functional.alpha_dropout, **_ALPHA_RULE),
    functional.feature_alpha_dropout: _rule(
        functional.feature_alpha_dropout, features=True, **_ALPHA_RULE
    ),
}
