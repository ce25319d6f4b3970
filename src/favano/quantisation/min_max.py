"""Stochastic rounding between the minimum and the maximum of each tensor.

The QuAFL simulator calls this QSGD; the codec of that name is in `qsgd.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from favano.quantisation.codec import CodedMessages, check_bits, each_tensor, never
from favano.types import Stack


@dataclass(frozen=True, kw_only=True)
class MinMax:
    """k = 2^b levels over the range of a tensor; unbiased.

        unit = (max - min) / (k - 1),   Enc(x) = floor((x - min) / unit + U),   U uniform on (0, 1)
        Dec(v) = min + unit v

    A constant tensor is unchanged. Minimum and maximum are sent with the codes.
    """

    bits: int = 8

    name: ClassVar[str] = "min-max"
    differences: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_bits(self.bits)

    @property
    def largest(self) -> int:
        return (1 << self.bits) - 1

    def draws(self, size: int) -> int:
        return size

    def scalars(self, tensors: int) -> int:
        return 2 * tensors  # the minima, then the maxima

    def encode(self, values: Stack, noise: Stack, sizes: Sequence[int]) -> CodedMessages:
        exact = values.double()
        parts = torch.split(exact, list(sizes), dim=1)
        low = torch.stack([part.amin(dim=1) for part in parts], dim=1)
        high = torch.stack([part.amax(dim=1) for part in parts], dim=1)
        unit = self._unit(low, high)
        level = (exact - each_tensor(low, sizes)) / each_tensor(unit.where(unit > 0, 1.0), sizes)
        codes = torch.floor(level + noise).clamp(0, self.largest).long()  # rounding may exceed it
        return CodedMessages(codes, torch.cat([low, high], dim=1))

    def decode(self, coded: CodedMessages, key: Stack, sizes: Sequence[int]) -> Stack:
        low, high = coded.scalars.chunk(2, dim=1)
        return each_tensor(low, sizes) + each_tensor(self._unit(low, high), sizes) * coded.codes

    def wrapped(self, values: Stack, key: Stack) -> Tensor:
        return never(values)

    def _unit(self, low: Tensor, high: Tensor) -> Tensor:
        return (high - low) / self.largest
