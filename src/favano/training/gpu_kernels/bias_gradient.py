"""The gradient of a convolution's biases: sums over all pixels, in one pass over memory."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from favano.training.gpu_kernels.channels_last import channels_last
from favano.training.gpu_kernels.normalisation import tile

_PARTS = 64  # programs per lane, whose sums are added by PyTorch
_NUMBERS = 4096  # that a program handles at once


@triton.jit(do_not_specialize=["count"])
def _bias_kernel(
    gradient, parts, count, CHANNELS: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr
):  # fmt: skip
    lane, part = tl.program_id(1).to(tl.int64), tl.program_id(0)
    channel = tl.arange(0, BLOCK)
    known = channel < CHANNELS
    gradient += lane * count * CHANNELS
    total = tl.zeros((ROWS, BLOCK), dtype=tl.float32)
    for start in range(part * ROWS, count, tl.num_programs(0) * ROWS):
        at, there = tile(start, count, channel, known, CHANNELS, ROWS)
        total += tl.load(gradient + at, mask=there, other=0.0).to(tl.float32)
    to = parts + (lane * tl.num_programs(0) + part) * CHANNELS + channel
    tl.store(to, tl.sum(total, 0), mask=known)


def bias_gradient(gradient: Tensor) -> Tensor:
    """The sums of (L, B, O, h, w) over all but lanes and filters, (L, O)."""
    gradient = channels_last(gradient)
    lanes, batch, high, wide, filters = gradient.shape
    parts = gradient.new_empty((lanes, _PARTS, filters), dtype=torch.float32)
    block = int(triton.next_power_of_2(filters))
    _bias_kernel[_PARTS, lanes](
        gradient, parts, batch * high * wide,
        CHANNELS=filters, BLOCK=block, ROWS=max(1, _NUMBERS // block),
    )  # fmt: skip
    return parts.sum(1)
