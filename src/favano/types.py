"""Shared words: arrays of the schedule half, vectors of the numerics half."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from torch import Tensor

Ints: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]
Mask: TypeAlias = npt.NDArray[np.bool_]
Array: TypeAlias = npt.NDArray[np.generic]  # of any type

Vector: TypeAlias = "Tensor"
"""One model as a flat vector, (P,)."""

Stack: TypeAlias = "Tensor"
"""Models as the rows of a matrix, (k, P)."""

# Choices of a specification, named here so that reading one does not load PyTorch.
NonFinite: TypeAlias = Literal["stop", "skip"]  # what to do about NaN in an update
Buffers: TypeAlias = Literal["average", "local"]  # local: they never leave the clients
Precision: TypeAlias = Literal["tf32", "float32", "bf16"]
# Those of oneDNN; PyTorch's own without it; those of oneDNN on images with channels last.
Kernels: TypeAlias = Literal["onednn", "native", "channels-last"]
KernelChoice: TypeAlias = Literal["auto", Kernels]
