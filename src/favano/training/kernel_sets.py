"""The sets of CPU kernels that can be used for training.

They compute the same but round differently, so a run uses one set in all its steps and processes.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from favano.errors import require
from favano.types import Kernels


def default_kernels() -> Kernels:
    """The kernels that are used without a measurement.

    On aarch64 this is not oneDNN, which starts its own threads there.
    """
    library = bool(torch.backends.mkldnn.enabled) and platform.machine() != "aarch64"
    return "onednn" if library else "native"


def library_there() -> bool:
    """Whether PyTorch was built with oneDNN."""
    return bool(torch.backends.mkldnn.is_available())  # type: ignore[no-untyped-call]


def check_kernels(kernels: Kernels) -> Kernels:
    """Refuse kernels that this build of PyTorch does not have."""
    rule = "this PyTorch was built without oneDNN; need auto or native"
    require(kernels == "native" or library_there(), "kernels", kernels, rule)
    return kernels


@contextmanager
def using(kernels: Kernels | None) -> Iterator[None]:
    """Use these kernels in a `with` block; None means those of the process."""
    library = torch.backends.mkldnn
    before = library.enabled
    library.enabled = before if kernels is None else kernels != "native"  # type: ignore[assignment]
    try:
        yield
    finally:
        library.enabled = before


def arranged(features: Tensor, kernels: Kernels | None) -> Tensor:
    """A batch in the memory layout of the kernels; values and shape stay the same."""
    if kernels == "channels-last" and features.ndim == 4:
        return features.contiguous(memory_format=torch.channels_last)
    return features
