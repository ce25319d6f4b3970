"""With which kernels a CPU trains.

The choices compute the same and round differently, so a run keeps to one of them from its first
step to its last, in whatever process a step is made.
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
    """What is used where nothing was measured.

    On aarch64 not oneDNN, which starts threads of its own there.
    """
    library = bool(torch.backends.mkldnn.enabled) and platform.machine() != "aarch64"
    return "onednn" if library else "native"


def library_there() -> bool:
    """Whether PyTorch was built with oneDNN."""
    return bool(torch.backends.mkldnn.is_available())  # type: ignore[no-untyped-call]


def check_kernels(kernels: Kernels) -> Kernels:
    """Refuse those that this build of PyTorch does not have."""
    need(
        kernels == "native" or library_there(),
        "kernels",
        kernels,
        "this PyTorch was built without oneDNN; need auto or native",
    )
    return kernels


@contextmanager
def using(kernels: Kernels | None) -> Iterator[None]:
    """These kernels while it lasts; with None, whatever the process uses."""
    before = bool(torch.backends.mkldnn.enabled)
    _use_library(before if kernels is None else kernels != "native")
    try:
        yield
    finally:
        _use_library(before)


def arranged(features: Tensor, kernels: Kernels | None) -> Tensor:
    """A batch as the kernels like it in memory; its values and its shape stay."""
    if kernels == "channels-last" and features.ndim == 4:
        return features.contiguous(memory_format=torch.channels_last)
    return features


def _use_library(wanted: bool) -> None:
    torch.backends.mkldnn.enabled = wanted  # type: ignore[assignment]
