"""Shared words: arrays of the schedule half, vectors of the numerics half."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from torch import Tensor

Ints: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]

Vector: TypeAlias = "Tensor"  # one model, (P,)
Stack: TypeAlias = "Tensor"  # k models, (k, P)
