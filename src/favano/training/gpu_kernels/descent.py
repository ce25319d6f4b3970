"""A step of SGD in all lanes. PyTorch's kernel for it reaches a quarter of the memory's speed."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import torch
import triton
import triton.language as tl
from torch import Tensor

from favano.types import Stack

_NUMBERS = 4096  # weights that a program handles
_SIDE = 64  # most rows of a rectangle of them
_FEW = 4096  # numbers of a gradient that is joined with others: most kernels would be tiny


@triton.jit(do_not_specialize=["count"])
def _descent_kernel(
    models, gradients, rates, to, rows, places, count, between, apart, to_apart,
    PLACED: tl.constexpr, NUMBERS: tl.constexpr,
):  # fmt: skip
    """to[rows[lane]] = models[lane] - rate gradients[lane], at some places of a model or at all.

    Lanes are `between` numbers apart in `gradients`, and `apart` and `to_apart` in the stacks.
    """
    lane = tl.program_id(1).to(tl.int64)
    number = tl.program_id(0) * NUMBERS + tl.arange(0, NUMBERS)
    known, rate = number < count, tl.load(rates + lane)
    place = tl.load(places + number, mask=known, other=0) if PLACED else number
    gradient = tl.load(gradients + lane * between + number, mask=known)
    weight = tl.load(models + lane * apart + place, mask=known)
    tl.store(to + tl.load(rows + lane) * to_apart + place, weight - rate * gradient, mask=known)


@triton.jit
def _turned_kernel(
    models, gradients, rates, to, rows, height, width, between, apart, to_apart,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """The same for a matrix whose gradient is stored column by column."""
    lane = tl.program_id(2).to(tl.int64)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    known = (column < width)[:, None] & (row < height)[None, :]
    gradients += lane * between + column[:, None] * height + row[None, :]
    gradient = tl.trans(tl.load(gradients, mask=known))
    place = row[:, None] * width + column[None, :]
    known = (row < height)[:, None] & (column < width)[None, :]
    weight = tl.load(models + lane * apart + place, mask=known)
    to += tl.load(rows + lane) * to_apart + place
    tl.store(to, weight - tl.load(rates + lane) * gradient, mask=known)


class Descent:
    """Steps of SGD from a copy of some lanes' models to the models themselves.

    Args:
        sizes: numbers of the parameters, which lie one after the other in a model.
        device: where the models are.
    """

    def __init__(self, sizes: Sequence[int], device: torch.device) -> None:
        self._begins = [0, *accumulate(sizes)]
        few = [place for place, size in enumerate(sizes) if size <= _FEW]
        self._joined = few if len(few) > 1 else []
        places = [torch.arange(self._begins[n], self._begins[n + 1]) for n in self._joined]
        self._places = torch.cat([*places, torch.arange(0)]).to(device)

    def __call__(
        self, models: Stack, gradients: Sequence[Tensor], rates: Tensor, to: Stack, rows: Tensor
    ) -> None:
        """to[rows] = models - rates gradients, for the parameters; rates and rows are (L,)."""
        for number, (begin, gradient) in enumerate(zip(self._begins, gradients, strict=False)):
            if number not in self._joined:
                _descend(models[:, begin:], gradient, rates, to[:, begin:], rows)
        if self._joined:
            joined = [gradients[number].reshape(len(models), -1) for number in self._joined]
            _descend(models, torch.cat(joined, dim=1), rates, to, rows, self._places)


def _descend(
    models: Stack, gradients: Tensor, rates: Tensor, to: Stack, rows: Tensor,
    places: Tensor | None = None,
) -> None:  # fmt: skip
    """Of a linear layer the gradient is a product that comes column by column."""
    lanes, gradient, apart = len(models), gradients[0], (models.stride(0), to.stride(0))
    if gradient.ndim == 2 and gradient.T.is_contiguous() and not gradient.is_contiguous():
        height, width = gradient.shape
        high = min(_SIDE, int(triton.next_power_of_2(height)))
        wide = _NUMBERS // high
        _turned_kernel[triton.cdiv(height, high), triton.cdiv(width, wide), lanes](
            models, gradients, rates, to, rows, height, width, gradients.stride(0), *apart,
            ROWS=high, COLUMNS=wide,
        )  # fmt: skip
        return
    gradients = gradients if gradient.is_contiguous() else gradients.contiguous()
    count = gradient.numel()
    _descent_kernel[triton.cdiv(count, _NUMBERS), lanes](
        models, gradients, rates, to, rows, rows if places is None else places,
        count, gradients.stride(0), *apart, PLACED=places is not None, NUMBERS=_NUMBERS,
    )  # fmt: skip
