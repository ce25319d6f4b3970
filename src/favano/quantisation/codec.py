"""The interface of codecs: models to small whole numbers and back, as pure functions on stacks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from favano.errors import need
from favano.types import Stack

MOST_BITS = 32


class CodedMessages(NamedTuple):
    """k messages: a code for each coordinate, and the few numbers that go with them."""

    codes: Tensor  # (k, d) int64, 0..largest
    scalars: Tensor  # (k, m) float64


class Codec(Protocol):
    """A way to write a vector in few bits. What it gives back is float64.

    `sizes` are the lengths of the tensors that the vector is made of, for codecs that look at each
    tensor by itself; `noise` holds `draws(d)` uniform numbers of (0, 1) for each row.
    """

    @property
    def name(self) -> str:
        """As the wire format and the command line call it."""

    @property
    def bits(self) -> int:
        """Bits of a code b."""

    @property
    def largest(self) -> int:
        """The largest code, below 2^b."""

    @property
    def differences(self) -> bool:
        """Whether to encode what changed since a model that both sides know, not the model."""

    def draws(self, size: int) -> int:
        """Uniform draws needed to encode a vector of this length."""

    def scalars(self, tensors: int) -> int:
        """Numbers that travel beside the codes."""

    def encode(self, values: Stack, noise: Stack, sizes: Sequence[int]) -> CodedMessages:
        """What the sender sends."""

    def decode(self, coded: CodedMessages, key: Stack, sizes: Sequence[int]) -> Stack:
        """What the receiver makes of it, knowing a model `key` near the sender's."""

    def wrapped(self, values: Stack, key: Stack) -> Tensor:
        """Which messages cannot be decoded with this key, (k,); only who knows both can tell."""


def check_bits(bits: int, least: int = 1) -> None:
    """Refuse a width that no message can have."""
    need(least <= bits <= MOST_BITS, "bits", bits, f"need {least}..{MOST_BITS}")


def each_tensor(values: Tensor, sizes: Sequence[int]) -> Tensor:
    """One number per tensor, (k, m), repeated for each of its coordinates, (k, d)."""
    repeats = torch.tensor(tuple(sizes), device=values.device)
    return values.repeat_interleave(repeats, dim=1, output_size=sum(sizes))


def never(values: Stack) -> Tensor:
    """No message is beyond decoding."""
    return torch.zeros(len(values), dtype=torch.bool, device=values.device)
