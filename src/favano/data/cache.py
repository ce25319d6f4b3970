"""Decoded images on disk: written once, then mapped into memory.

A cache folder is written under a temporary name and renamed when it is finished, so a folder that
exists is complete. Of two processes that decode at once, the second discards its own folder.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, cast
from uuid import uuid4

import numpy as np
import numpy.typing as npt

from favano.data.dataset import Pixels
from favano.errors import BadInput, require
from favano.types import Ints


class Arrays(NamedTuple):
    """Images in a cache folder, one `.npy` file for each array."""

    train_images: Pixels  # (N, C, H, W)
    train_labels: Ints  # (N,)
    test_images: Pixels  # (M, C, H, W)
    test_labels: Ints  # (M,)
    classes: int


_REMEDY = "remove its folder to have the data decoded again"
TEXT = ("text", "roles")  # the arrays of a text by role
_SOURCES = "sources.txt"  # the folders that a cache was decoded from, a line each


def default_root() -> Path:
    """`$XDG_CACHE_HOME/favano`, by default `~/.cache/favano`."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "favano"


def complete(folder: Path, names: Iterable[str] = Arrays._fields) -> bool:
    """Whether a folder holds all arrays, by default those of images."""
    return all((folder / f"{name}.npy").is_file() for name in names)


def ensure(folder: Path, write: Callable[[Path], None]) -> None:
    """Let `write` fill `folder`, unless it exists."""
    if folder.is_dir():
        return
    temporary = folder.with_name(f".{folder.name}-{uuid4().hex}")
    try:
        temporary.mkdir(parents=True)
    except OSError as error:
        rule = f"cannot be written ({error.strerror}); set XDG_CACHE_HOME to a folder that can be"
        raise BadInput("cache", folder.parent, rule) from error
    try:
        write(temporary)
        try:
            temporary.rename(folder)
        except OSError:
            if not folder.is_dir():  # another process was not faster
                raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def note_source(folder: Path, source: Path) -> None:
    """Note where the data of a cache folder came from, for when this is gone."""
    path, line = folder / _SOURCES, str(source.resolve())
    if path.is_file() and line in path.read_text(encoding="utf-8").splitlines():
        return
    with suppress(OSError), path.open("a", encoding="utf-8") as file:  # others' may be read-only
        file.write(f"{line}\n")


def decoded_from(root: Path, source: Path) -> Path | None:
    """The cache folder of a source, the newest if its files have changed; None if none is known."""
    wanted = str(source.resolve())
    notes = root.glob(f"*/{_SOURCES}")
    matching = [note for note in notes if wanted in note.read_text(encoding="utf-8").splitlines()]
    return max(matching, key=lambda note: note.stat().st_mtime_ns).parent if matching else None


def read(folder: Path) -> Arrays:
    """Map the images and load the labels of a complete cache folder."""
    return Arrays(
        read_array(folder / "train_images.npy", "u", (4,)),
        np.array(read_array(folder / "train_labels.npy")),
        read_array(folder / "test_images.npy", "u", (4,)),
        np.array(read_array(folder / "test_labels.npy")),
        int(read_array(folder / "classes.npy", dimensions=(0,))),
    )


def read_array(
    path: Path, kinds: str = "iu", dimensions: tuple[int, ...] = (1,)
) -> npt.NDArray[Any]:
    """An array of a cache folder, mapped into memory; refused if it is not what it should be."""
    with _naming(path):
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    _check(path, array, kinds, dimensions)
    return cast(npt.NDArray[Any], array)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Refuse a file that NumPy cannot read; a damaged one may raise any error."""
    try:
        yield
    except Exception as error:
        raise BadInput("dataset", path, f"is damaged; {_REMEDY}") from error


def _check(path: Path, array: object, kinds: str, dimensions: tuple[int, ...]) -> None:
    right = isinstance(array, np.ndarray) and array.dtype.kind in kinds and array.ndim in dimensions
    require(right, "dataset", path, f"does not hold what it should; {_REMEDY}")


def write_owners(folder: Path, part: str, owners: Mapping[str, Ints]) -> None:
    """Write whose the samples of a part are, by column."""
    np.savez(folder / f"{part}_owners.npz", **owners)  # type: ignore[arg-type]


def read_owners(folder: Path, part: str) -> dict[str, Ints]:
    """Whose the samples of a part are, by column; nothing in folders that do not say it."""
    path = folder / f"{part}_owners.npz"
    if not path.is_file():
        return {}
    with _naming(path), path.open("rb") as file, np.load(file, allow_pickle=False) as owners:
        columns = dict(owners)
    for column in columns.values():
        _check(path, column, "iu", (1,))
    return columns
