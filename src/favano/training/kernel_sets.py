"""Sets of CPU kernels used for training: oneDNN, PyTorch's own, or channels last.

They compute the same but round differently, so a run uses one set for all steps, in all processes.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from favano.errors import need
from favano.types import Kernels


def default_kernels() -> Kernels:
    """The kernels used if nothing was measured.

    Not oneDNN on aarch64, where it starts threads of its own.
    """
    library = bool(torch.backends.mkldnn.enabled) and platform.machine() != "aarch64"
    return "onednn" if library else "native"


def library_there() -> bool:
    """Whether PyTorch was built with oneDNN."""
    return bool(torch.backends.mkldnn.is_available())  # type: ignore[no-untyped-call]


def check_kernels(kernels: Kernels) -> Kernels:
    """Refuse kernels that this build of PyTorch does not have."""
    need(
        kernels == "native" or library_there(),
        "kernels",
        kernels,
        "this PyTorch was built without oneDNN; need auto or native",
    )
    return kernels


@contextmanager
def using(kernels: Kernels | None) -> Iterator[None]:
    """Use these kernels within the block; with None, those of the process."""
    before = bool(torch.backends.mkldnn.enabled)
    _use_library(before if kernels is None else kernels != "native")
    try:
        yield
    finally:
        _use_library(before)


def arranged(features: Tensor, kernels: Kernels | None) -> Tensor:
    """A batch in the memory layout of the kernels; values and shape stay the same."""
    if kernels == "channels-last" and features.ndim == 4:
        return features.contiguous(memory_format=torch.channels_last)
    return features


def _use_library(wanted: bool) -> None:
    torch.backends.mkldnn.enabled = wanted  # type: ignore[assignment]
