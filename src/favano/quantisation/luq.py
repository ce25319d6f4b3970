"""LUQ: logarithmic unbiased quantisation (Chmiel et al. 2021) of gradients, tensor by tensor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

import torch
from torch import Tensor
from torch.autograd import Function

# By type: an integer type of the same width, and the bits of the exponent.
_EXPONENT: Final[Mapping[torch.dtype, tuple[torch.dtype, int]]] = {
    torch.float32: (torch.int32, 0x7F800000),
    torch.float64: (torch.int64, 0x7FF0000000000000),
}


def luq(values: Tensor, noise: Tensor, levels: int = 7) -> Tensor:
    """Every value as 0 or +-alpha 2^k, k = 0..levels - 1; the expectation is the value.

        alpha = max |x| / 2^(levels - 1)
        |x| < alpha                       alpha with probability |x| / alpha, else 0
        alpha 2^k <= |x| <= alpha 2^(k+1) the upper one with probability |x| / (alpha 2^k) - 1

    Computed in one step for both cases: with r = |x| / alpha and u uniform on [0, 1), add u times
    the power of two below r, or u if r < 1; then round down to a power of two, or to 0 below 1. The
    largest value is a level, so nothing is clipped.

    Args:
        values: one tensor of any shape.
        noise: uniform numbers on [0, 1) in the same shape. They must be multiples of 2^-23: with
            one more bit, float32 would round 2^k (1 + u) up to the next power.
        levels: 7 fits four bits with sign and zero; LUQ's public code has 8.

    >>> luq(torch.tensor([64.0, 3.0, -0.25, 0.0]), torch.tensor([0.9, 0.25, 0.8, 0.9]))
    tensor([64.,  2., -1.,  0.])
    """
    tiny = torch.finfo(values.dtype).tiny
    unit = (values.abs().amax() / 2 ** (levels - 1)).clamp(min=tiny)  # alpha
    share = values.abs() / unit  # r
    lifted = _power_below(share.clamp(min=1.0)).mul_(noise).add_(share)
    return _power_below(lifted).floor_().mul_(unit).mul_(torch.sign(values))


class _PowerBelow(Function):
    """The largest power of two that is not above a positive number: clears its mantissa.

    `torch.frexp` is exact as well but takes ten times as long. PyTorch before 2.13 has no rule to
    `vmap` a view of numbers as bits, so here is one.
    """

    @staticmethod
    def forward(values: Tensor) -> Tensor:
        whole, exponent = _EXPONENT[values.dtype]
        return (values.view(whole) & exponent).view(values.dtype)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.mark_non_differentiable(output)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> None:
        """No gradient: the function is piecewise constant."""

    @staticmethod
    def vmap(info: object, in_dims: tuple[int | None], values: Tensor) -> tuple[Tensor, int | None]:
        return _power_below(values), in_dims[0]


def _power_below(values: Tensor) -> Tensor:
    return cast(Tensor, _PowerBelow.apply(values))  # type: ignore[no-untyped-call]
