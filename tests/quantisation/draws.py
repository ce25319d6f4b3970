"""Stacks of the same vector with independent noise, for Monte Carlo over many messages at once."""

from __future__ import annotations

import torch
from torch import Tensor

from favano.quantisation import Codec, CodedMessages

SIZES = [30, 1, 9]  # tensors of a small network


def vector(seed: int = 0) -> Tensor:
    """Three tensors of very different size of numbers."""
    generator = torch.Generator().manual_seed(seed)
    draw = torch.randn(sum(SIZES), generator=generator, dtype=torch.float64)
    return draw * torch.cat([torch.full((size,), 10.0**-i) for i, size in enumerate(SIZES)])


def noise(codec: Codec, messages: int, seed: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    shape = messages, codec.draws(sum(SIZES))
    return torch.rand(shape, generator=generator, dtype=torch.float64)


def encoded(codec: Codec, values: Tensor, messages: int) -> CodedMessages:
    return codec.encode(values.repeat(messages, 1), noise(codec, messages), SIZES)


def carried(codec: Codec, values: Tensor, messages: int) -> Tensor:
    """What becomes of the vector in so many messages, read with a key nearby; (messages, d)."""
    key = (values + 0.01).repeat(messages, 1)
    return codec.decode(encoded(codec, values, messages), key, SIZES)


def check_unbiased(codec: Codec, values: Tensor, messages: int = 20_000) -> None:
    """The mean over messages is the vector itself, within five standard errors, and it varies."""
    decoded = carried(codec, values, messages)
    error = (decoded.mean(dim=0) - values).abs()
    spread = decoded.std(dim=0)
    exact = error < 1e-12  # a coordinate on a level is always itself
    assert bool((exact | (error <= 5 * spread / messages**0.5)).all())
    assert float(spread.max()) > 0
