"""Images with channels last in memory. PyTorch reads or writes one number here, one there."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

_NUMBERS = 4096  # that a program moves
_CHANNELS = 64  # of them, at most


@triton.jit
def _turn_kernel(
    images, out, pixels,
    CHANNELS: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr, PIXELS: tl.constexpr,
):  # fmt: skip
    """out[pixel, channel] = images[channel, pixel], and zeros up to `WIDTH` channels."""
    image = tl.program_id(0).to(tl.int64)
    pixel = tl.program_id(1) * PIXELS + tl.arange(0, PIXELS)
    channel = tl.program_id(2) * BLOCK + tl.arange(0, BLOCK)
    there = (channel < CHANNELS)[:, None] & (pixel < pixels)[None, :]
    at = (image * CHANNELS + channel[:, None]) * pixels + pixel[None, :]
    values = tl.load(images + at, mask=there, other=0)
    to = out + (image * pixels + pixel[:, None]) * WIDTH + channel[None, :]
    tl.store(to, tl.trans(values), mask=(pixel < pixels)[:, None] & (channel < WIDTH)[None, :])


def channels_last(images: Tensor, multiple: int = 1) -> Tensor:
    """(L, B, C, H, W) as contiguous (L, B, H, W, C); copied only if necessary.

    There are zeros up to a multiple of so many channels.
    """
    lanes, batch, channels, height, width = images.shape
    rest, turned = -channels % multiple, images.movedim(2, -1)
    if not rest and (turned.is_contiguous() or not images.is_contiguous()):
        return turned.contiguous()
    images, pixels = images.contiguous(), height * width
    out = images.new_empty((lanes, batch, height, width, channels + rest))
    block = min(_CHANNELS, int(triton.next_power_of_2(channels + rest)))
    some = min(_NUMBERS // block, int(triton.next_power_of_2(pixels)))
    tiles = triton.cdiv(pixels, some), triton.cdiv(channels + rest, block)
    _turn_kernel[lanes * batch, *tiles](
        images, out, pixels, CHANNELS=channels, WIDTH=channels + rest, BLOCK=block, PIXELS=some
    )
    return out
