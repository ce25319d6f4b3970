"""What batch and group normalisation share: passes of one program over some pixels.

    z = relu(weight (x - mean) / sqrt(var + epsilon) + bias + residual)

Images have channels last in memory. Every function here takes pixels `begin`, `begin + step`, ...
up to `end`, `ROWS` at once; `channel` are the channels of a tile and `known` says which exist.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def tile(start, end, channel, known, CHANNELS: tl.constexpr, ROWS: tl.constexpr):
    """Positions of some pixels in memory, and which of them exist."""
    pixel = start + tl.arange(0, ROWS)
    return pixel[:, None] * CHANNELS + channel[None, :], (pixel < end)[:, None] & known[None, :]


@triton.jit
def moments(
    images, channel, known, begin, end, step, CHANNELS: tl.constexpr, ROWS: tl.constexpr
):  # fmt: skip
    """Per channel: sums of x - shift and of its square, and the shift, which is the first pixel."""
    shift = tl.load(images + channel, mask=known, other=0.0).to(tl.float32)
    first = tl.zeros((ROWS, channel.shape[0]), dtype=tl.float32)
    second = tl.zeros((ROWS, channel.shape[0]), dtype=tl.float32)
    for start in range(begin, end, step):
        at, there = tile(start, end, channel, known, CHANNELS, ROWS)
        image = tl.load(images + at, mask=there, other=0.0)
        distance = tl.where(there, image.to(tl.float32) - shift[None, :], 0.0)
        first += distance
        second += distance * distance
    return tl.sum(first, 0), tl.sum(second, 0), shift


@triton.jit
def normalise(
    images, residual, out, scale, offset, channel, known, begin, end, step,
    CHANNELS: tl.constexpr, ROWS: tl.constexpr, WITH_RESIDUAL: tl.constexpr, RELU: tl.constexpr,
):  # fmt: skip
    """out = relu(scale x + offset + residual)."""
    for start in range(begin, end, step):
        at, there = tile(start, end, channel, known, CHANNELS, ROWS)
        image = tl.load(images + at, mask=there, other=0.0).to(tl.float32)
        result = image * scale[None, :] + offset[None, :]
        if WITH_RESIDUAL:
            result += tl.load(residual + at, mask=there, other=0.0).to(tl.float32)
        if RELU:
            result = tl.maximum(result, 0.0)
        tl.store(out + at, result.to(out.dtype.element_ty), mask=there)


@triton.jit
def _rectified_gradient(
    gradient, images, out, at, there, scale, offset,
    WITH_RESIDUAL: tl.constexpr, RELU: tl.constexpr,
):  # fmt: skip
    """The gradient before the rectifier, and the images, at some positions.

    The sign of the result is computed from the image; with a residual it is read from `out`.
    """
    incoming = tl.load(gradient + at, mask=there, other=0.0).to(tl.float32)
    image = tl.load(images + at, mask=there, other=0.0).to(tl.float32)
    if RELU:
        if WITH_RESIDUAL:
            result = tl.load(out + at, mask=there, other=0.0).to(tl.float32)
        else:
            result = image * scale[None, :] + offset[None, :]
        incoming = tl.where(result > 0, incoming, 0.0)
    return incoming, image


@triton.jit
def gradient_moments(
    gradient, images, out, to_residual, scale, offset, mean, inverse,
    channel, known, begin, end, step,
    CHANNELS: tl.constexpr, ROWS: tl.constexpr, WITH_RESIDUAL: tl.constexpr, RELU: tl.constexpr,
):  # fmt: skip
    """Per channel: sums of the incoming gradient, and of its products with (x - mean) inverse.

    The gradient of a residual is that before the rectifier, and written here.
    """
    first = tl.zeros((ROWS, channel.shape[0]), dtype=tl.float32)
    second = tl.zeros((ROWS, channel.shape[0]), dtype=tl.float32)
    for start in range(begin, end, step):
        at, there = tile(start, end, channel, known, CHANNELS, ROWS)
        incoming, image = _rectified_gradient(
            gradient, images, out, at, there, scale, offset, WITH_RESIDUAL, RELU
        )
        if WITH_RESIDUAL:
            tl.store(to_residual + at, incoming.to(to_residual.dtype.element_ty), mask=there)
        first += incoming
        second += incoming * (image - mean[None, :]) * inverse[None, :]
    return tl.sum(first, 0), tl.sum(second, 0)


@triton.jit
def images_gradient(
    gradient, images, to_images, scale, offset, mean, constant, slope,
    channel, known, begin, end, step,
    CHANNELS: tl.constexpr, ROWS: tl.constexpr, RELU: tl.constexpr,
):  # fmt: skip
    """to_images = scale g - constant - slope (x - mean), where g is before the rectifier."""
    for start in range(begin, end, step):
        at, there = tile(start, end, channel, known, CHANNELS, ROWS)
        incoming, image = _rectified_gradient(
            gradient, images, images, at, there, scale, offset, False, RELU
        )
        distance = (image - mean[None, :]) * slope[None, :]
        outgoing = scale[None, :] * incoming - constant[None, :] - distance
        tl.store(to_images + at, outgoing.to(to_images.dtype.element_ty), mask=there)


@triton.jit
def store_zeros(
    out, channel, known, begin, real, end, step, CHANNELS: tl.constexpr, ROWS: tl.constexpr
):  # fmt: skip
    """out = 0 for pixels from `real` on, which are those of images that pad a mini-batch."""
    zeros = tl.zeros((ROWS, channel.shape[0]), dtype=out.dtype.element_ty)
    for start in range(begin + tl.maximum(real - begin, 0) // step * step, end, step):
        at, there = tile(start, end, channel, known, CHANNELS, ROWS)
        pixel = start + tl.arange(0, ROWS)
        tl.store(out + at, zeros, mask=there & (pixel >= real)[:, None])
