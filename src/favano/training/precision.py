"""With which numbers a GPU multiplies matrices."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import torch

Precision = Literal["tf32", "float32"]  # products of float32: mantissas of 10 bits, or of 23


@contextmanager
def numbers(precision: Precision) -> Iterator[None]:
    """Products of float32 in this precision while it lasts; it is the process's own outside."""
    matrices, convolutions = torch.backends.cuda.matmul, torch.backends.cudnn
    before = matrices.allow_tf32, convolutions.allow_tf32
    matrices.allow_tf32 = convolutions.allow_tf32 = precision == "tf32"
    try:
        yield
    finally:
        matrices.allow_tf32, convolutions.allow_tf32 = before
