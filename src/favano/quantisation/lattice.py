"""The modular lattice codec of QuAFL: a message is read relative to a model of the receiver."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import ClassVar

import torch
from torch import Tensor

from favano.errors import require
from favano.quantisation.codec import CodedMessages, check_bits
from favano.types import Stack

_FURTHEST = 2.0**62  # cells; numbers beyond it do not fit int64, and wrap around anyway


@dataclass(frozen=True, kw_only=True)
class Lattice:
    """Position on a grid of side delta modulo Q = 2^b cells (Davies et al. 2021; QuAFL, 2022).

        Enc(x)      = round(x / delta + u) mod Q
        Dec(v; key) = delta (m - u),   m = v + Q round((key / delta + u - v) / Q)

    m is the number congruent to v that is nearest to the key. If |x - key| < (Q - 1) delta / 2, the
    error is at most delta / 2, whatever the size of x; otherwise a non-zero multiple of Q delta is
    added to it unnoticed (`wrapped`). The shift u is 0. With `dither` it is uniform on (-1/2, 1/2),
    one per message; then the error is uniform and the codec unbiased.
    """

    bits: int = 14
    scale: float = 1e-4  # delta
    dither: bool = False

    name: ClassVar[str] = "lattice"
    differences: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_bits(self.bits)
        require(self.scale > 0 and isfinite(self.scale), "scale", self.scale, "need more than 0")

    @property
    def largest(self) -> int:
        return (1 << self.bits) - 1

    @property
    def radius(self) -> float:
        """The largest distance from the key, (Q - 1) delta / 2."""
        return self.largest * self.scale / 2

    def draws(self, size: int) -> int:
        return 1 if self.dither else 0

    def scalars(self, tensors: int) -> int:
        return 1  # the shift

    def encode(self, values: Stack, noise: Stack, sizes: Sequence[int]) -> CodedMessages:
        exact = values.double()
        shift = noise[:, :1].double() - 0.5 if self.dither else exact.new_zeros(len(exact), 1)
        # int64, since the number of a cell may be far beyond 32 bits.
        cells = torch.round(exact / self.scale + shift).clamp(-_FURTHEST, _FURTHEST).long()
        return CodedMessages(cells & self.largest, shift)

    def decode(self, coded: CodedMessages, key: Stack, sizes: Sequence[int]) -> Stack:
        codes, shift, period = coded.codes.double(), coded.scalars, self.largest + 1
        cells = codes + period * torch.round((key.double() / self.scale + shift - codes) / period)
        return (cells - shift) * self.scale

    def wrapped(self, values: Stack, key: Stack) -> Tensor:
        return (values.double() - key.double()).abs().amax(dim=1) >= self.radius
