"""Dropout of many lanes: what is kept is drawn again for the gradient, not stored."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from favano.training.gpu_kernels.quantisers import uniform_noise

_NUMBERS = 2048  # that a program handles


@triton.jit(do_not_specialize=["count", "draw"])
def _dropout_kernel(values, step_keys, out, count, draw, drop, scale, NUMBERS: tl.constexpr):
    lane = tl.program_id(1).to(tl.int64)
    number = tl.program_id(0) * NUMBERS + tl.arange(0, NUMBERS)
    known, at = number < count, lane * count + number
    value = tl.load(values + at, mask=known, other=0.0).to(tl.float32)
    kept = uniform_noise(tl.load(step_keys + lane), draw, number) >= drop
    value *= tl.where(kept, scale, 0.0)  # not a choice: NaN stays
    tl.store(out + at, value.to(out.dtype.element_ty), mask=known)


def dropped(values: Tensor, step_keys: Tensor, draw: int, p: float) -> Tensor:
    """Values (L, ...) by the draws at this place of a step, as `favano.training.dropout`."""
    values = values.contiguous()
    out, count = values.new_empty(values.shape), values[0].numel()
    _dropout_kernel[triton.cdiv(count, _NUMBERS), len(values)](
        values, step_keys.contiguous(), out, count,
        draw, round(p * 2**23) / 2**23, 1.0 / (1.0 - p) if p < 1 else 0.0, NUMBERS=_NUMBERS,
    )  # fmt: skip
    return out
