"""QSGD (Alistarh, Grubic, Li, Tomioka, Vojnovic 2017), with the L2 norm of each tensor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from favano.quantisation.codec import CodedMessages, check_bits, each_tensor, never
from favano.types import Stack


@dataclass(frozen=True, kw_only=True)
class Qsgd:
    """Sign and one of k + 1 magnitudes, k = 2^(b-1) - 1, relative to the norm of the tensor.

        Q(v)_j = ||v|| sign(v_j) zeta_j,   zeta_j = floor(k |v_j| / ||v|| + U) / k

    Unbiased, and E ||Q(v) - v||^2 <= min(d / k^2, sqrt(d) / k) ||v||^2 (Lemma 3.1). The error grows
    with the norm, so the change since a model that both sides know is encoded.
    """

    bits: int = 8

    name: ClassVar[str] = "qsgd"
    differences: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_bits(self.bits, least=2)

    @property
    def levels(self) -> int:
        """Magnitudes besides zero, k."""
        return (1 << (self.bits - 1)) - 1

    @property
    def largest(self) -> int:
        return 2 * self.levels  # a code is k plus the signed level

    def draws(self, size: int) -> int:
        return size

    def scalars(self, tensors: int) -> int:
        return tensors  # the norms

    def encode(self, values: Stack, noise: Stack, sizes: Sequence[int]) -> CodedMessages:
        exact = values.double()
        parts = torch.split(exact, list(sizes), dim=1)
        norm = torch.stack([torch.linalg.vector_norm(part, dim=1) for part in parts], dim=1)
        share = exact.abs() / each_tensor(norm.where(norm > 0, 1.0), sizes)
        level = torch.floor(self.levels * share + noise).clamp(0, self.levels)
        return CodedMessages((torch.sign(exact) * level).long() + self.levels, norm)

    def decode(self, coded: CodedMessages, key: Stack, sizes: Sequence[int]) -> Stack:
        return (coded.codes - self.levels) * (each_tensor(coded.scalars, sizes) / self.levels)

    def wrapped(self, values: Stack, key: Stack) -> Tensor:
        return never(values)
