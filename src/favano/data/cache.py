"""Decoded images on disk: written once, then mapped into memory.

A cache folder is written under a temporary name and renamed when it is finished, so a folder that
exists is complete. Of two processes that decode at once, the second discards its own folder.
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
    """Contents of a cache folder, one `.npy` file each."""

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
    """Let `write` fill `folder`, unless it exists."""
    if folder.is_dir():
        return
    temporary = folder.with_name(f".{folder.name}-{uuid4().hex}")
    try:
        temporary.mkdir(parents=True)
    except OSError as error:
        rule = f"cannot be written ({error.strerror}); give a folder that can be"
        raise BadInput("cache_dir", folder.parent, rule) from error
    try:
        write(temporary)
        try:
            temporary.rename(folder)
        except OSError:
            if not folder.is_dir():  # another process was not faster
                raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def read(folder: Path) -> Arrays:
    """Map the images and load the labels of a complete cache folder."""
    return Arrays(
        np.load(folder / "train_images.npy", mmap_mode="r"),
        np.load(folder / "train_labels.npy"),
        np.load(folder / "test_images.npy", mmap_mode="r"),
        np.load(folder / "test_labels.npy"),
        int(np.load(folder / "classes.npy")),
    )
