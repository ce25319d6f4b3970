"""Decoded images on disk: written once as a whole, mapped into memory ever after.

A cache folder appears under its name by one rename of a finished temporary folder beside it.
A folder that exists is therefore complete, and of two processes that decode at once the second
finds the first one's folder in place and throws its own away.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import numpy as np

from favano.data.dataset import Pixels
from favano.errors import BadInput
from favano.types import Ints


class Arrays(NamedTuple):
    """What a cache folder holds, one `.npy` file each."""

    train_images: Pixels  # (N, C, H, W)
    train_labels: Ints  # (N,)
    test_images: Pixels  # (M, C, H, W)
    test_labels: Ints  # (M,)
    classes: int


def default_root() -> Path:
    """`$XDG_CACHE_HOME/favano`, by default `~/.cache/favano`."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "favano"


def complete(folder: Path) -> bool:
    """Whether a folder holds all arrays."""
    return all((folder / f"{name}.npy").is_file() for name in Arrays._fields)


def ensure(folder: Path, write: Callable[[Path], None]) -> None:
    """Have `write` fill `folder`, unless somebody already did."""
    if folder.is_dir():
        return
    temporary = folder.with_name(f".{folder.name}-{uuid4().hex}")
    try:
        temporary.mkdir(parents=True)
    except OSError as error:
        rule = f"cannot be written ({error.strerror}); give a folder that can"
        raise BadInput("cache_dir", folder.parent, rule) from error
    try:
        write(temporary)
        _publish(temporary, folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _publish(temporary: Path, folder: Path) -> None:
    """Give the finished folder its name; lose gracefully against another process."""
    try:
        temporary.rename(folder)
    except OSError:
        if not folder.is_dir():
            raise


def read(folder: Path) -> Arrays:
    """Map the images and load the labels of a complete cache folder."""
    train_images: Pixels = np.load(folder / "train_images.npy", mmap_mode="r")
    test_images: Pixels = np.load(folder / "test_images.npy", mmap_mode="r")
    train_labels: Ints = np.load(folder / "train_labels.npy")
    test_labels: Ints = np.load(folder / "test_labels.npy")
    classes = int(np.load(folder / "classes.npy"))
    return Arrays(train_images, train_labels, test_images, test_labels, classes)
