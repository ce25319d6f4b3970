"""The interface of codecs: models to small whole numbers and back, as pure functions on stacks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from favano.errors import require
from favano.types import Stack

MOST_BITS = 32


class CodedMessages(NamedTuple):
    """k messages: a code per coordinate, and a few scalars per message."""

    codes: Tensor  # (k, d) int64, 0..largest
    scalars: Tensor  # (k, m) float64


class Codec(Protocol):
    """Writes a vector in few bits, and reads it as float64.

    `sizes` are the lengths of the tensors in the vector, for codecs that treat each tensor
    separately; `noise` has `draws(d)` uniform numbers in (0, 1) per row.
    """

    @property
    def name(self) -> str:
        """Name on the command line and in messages."""

    @property
    def bits(self) -> int:
        """Bits per code, b."""

    @property
    def largest(self) -> int:
        """The largest code, below 2^b."""

    @property
    def differences(self) -> bool:
        """Whether it encodes the change since a model that both sides know, not the model."""

    def draws(self, size: int) -> int:
        """Number of uniform draws needed to encode a vector of this length."""

    def scalars(self, tensors: int) -> int:
        """Number of scalars per message."""

    def encode(self, values: Stack, noise: Stack, sizes: Sequence[int]) -> CodedMessages:
        """The messages of the sender."""

    def decode(self, coded: CodedMessages, key: Stack, sizes: Sequence[int]) -> Stack:
        """The vectors that the receiver reads, given a model `key` near the sender's."""

    def wrapped(self, values: Stack, key: Stack) -> Tensor:
        """Which messages are decoded wrongly with this key, (k,)."""


def check_bits(bits: int, least: int = 1) -> None:
    """Refuse a number of bits that no message can have."""
    require(least <= bits <= MOST_BITS, "bits", bits, f"need {least}..{MOST_BITS}")


def each_tensor(values: Tensor, sizes: Sequence[int]) -> Tensor:
    """One number per tensor, (k, m), repeated for each of its coordinates, (k, d)."""
    repeats = torch.tensor(tuple(sizes), device=values.device)
    return values.repeat_interleave(repeats, dim=1, output_size=sum(sizes))


def never(values: Stack) -> Tensor:
    """Every message is decoded correctly."""
    return torch.zeros(len(values), dtype=torch.bool, device=values.device)
