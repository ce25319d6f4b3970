"""LUQ: logarithmic unbiased quantisation (Chmiel et al. 2021) of gradients, tensor by tensor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

import torch
from torch import Tensor
from torch.autograd import Function

# The bits of a number's exponent, and whole numbers of its width.
_EXPONENT: Final[Mapping[torch.dtype, tuple[torch.dtype, int]]] = {
    torch.float32: (torch.int32, 0x7F800000),
    torch.float64: (torch.int64, 0x7FF0000000000000),
}


def luq(values: Tensor, noise: Tensor, levels: int = 7) -> Tensor:
    """Every value as 0 or +-alpha 2^k, k = 0..levels - 1, with the value as its expectation.

        alpha = max |x| / 2^(levels - 1)
        |x| < alpha                       alpha with probability |x| / alpha, else 0
        alpha 2^k <= |x| <= alpha 2^(k+1) the upper one with probability |x| / (alpha 2^k) - 1

    Both lines at once: with r = |x| / alpha and u uniform on [0, 1), add u times the power of two
    below r, or times 1 if r < 1; then round down to a power of two, or to 0 below 1. The largest
    value is a level itself, so nothing is clipped.

    Args:
        values: of one tensor, any shape.
        noise: uniform numbers on [0, 1), multiples of 2^-23, in the same shape: one more digit, and
            float32 would round 2^k (1 + u) up to the next power.
        levels: 7 fits four bits with sign and zero; 8 is what the public code of LUQ has.

    >>> luq(torch.tensor([64.0, 3.0, -0.25, 0.0]), torch.tensor([0.9, 0.25, 0.8, 0.9]))
    tensor([64.,  2., -1.,  0.])
    """
    tiny = torch.finfo(values.dtype).tiny
    unit = (values.abs().amax() / 2 ** (levels - 1)).clamp(min=tiny)  # alpha
    share = values.abs() / unit  # r
    lifted = _power_below(share.clamp(min=1.0)).mul_(noise).add_(share)
    return _power_below(lifted).floor_().mul_(unit).mul_(torch.sign(values))


class _PowerBelow(Function):
    """The largest power of two that is not above a positive number: its mantissa cleared.

    `torch.frexp` is exact as well and takes ten times as long. The rule for lanes is ours, since
    PyTorch before 2.13 has none for looking at numbers as bits.
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
        """Nothing: it is flat between its jumps."""

    @staticmethod
    def vmap(info: object, in_dims: tuple[int | None], values: Tensor) -> tuple[Tensor, int | None]:
        return _power_below(values), in_dims[0]


def _power_below(values: Tensor) -> Tensor:
    return cast(Tensor, _PowerBelow.apply(values))  # type: ignore[no-untyped-call]
