"""Encoded images of an origin as `.npy` files of raw pixels."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np

from favano.data.catalogue import Mode
from favano.data.hugging_face import read_splits
from favano.data.origins import Folder, Origin
from favano.data.parquet import read_parquet
from favano.errors import BadInput, need
from favano.types import Ints

if TYPE_CHECKING:
    from datasets import Dataset as Table
    from PIL.Image import Image

_ROWS = 1000  # read at once


def decode(
    origin: Origin,
    folder: Path,
    *,
    name: str,
    mode: Mode | None,
    classes: int | None,
    on_image: Callable[[int], None],
) -> None:
    """Fill `folder` with the arrays of `favano.data.cache.Arrays`.

    Args:
        origin: where the images lie.
        folder: an existing, empty folder.
        name: the data set, for messages.
        mode: grey or colour; None takes grey where every image is grey.
        classes: number of classes; None takes the files' own word or the largest label plus one.
        on_image: hears, image by image, how many there are in all.
    """
    with TemporaryDirectory(dir=folder, ignore_cleanup_errors=True) as arrow:
        tables = _tables(origin, Path(arrow), name)
        chosen = mode or _common_mode(name, tables)
        labels = {part: _labels(name, tables[part]) for part in ("train", "test")}
        count = classes or _classes(tables["train"], labels["train"])
        for part, values in labels.items():
            low, high = int(values.min()), int(values.max())
            rule = f"{part} labels run from {low} to {high}: need 0..{count - 1}"
            need(low >= 0 and high < count, "dataset", name, rule)
            np.save(folder / f"{part}_labels.npy", values)
        height, width = _first_size(name, tables["train"])
        shape = (1 if chosen == "L" else 3, height, width)
        total = sum(len(values) for values in labels.values())
        for part in labels:
            path = folder / f"{part}_images.npy"
            for _ in _write_images(name, tables[part], path, chosen, shape):
                on_image(total)
        np.save(folder / "classes.npy", np.int64(count))
        del tables  # closes its memory maps before their files go


def _tables(origin: Origin, arrow: Path, name: str) -> dict[str, Table]:
    """Read by `datasets`; local files, where it is not installed, by `pyarrow` alone."""
    try:
        import datasets  # noqa: F401
    except ImportError:
        if isinstance(origin, Folder):
            return read_parquet(origin, name)
    return read_splits(origin, arrow, name)


def _write_images(
    name: str, table: Table, path: Path, mode: Mode, shape: tuple[int, int, int]
) -> Iterator[int]:
    """Write all images, yielding the number of each once it is written."""
    pixels = np.lib.format.open_memmap(
        path, mode="w+", dtype=np.uint8, shape=(len(table), *shape)
    )  # (N, C, H, W)
    _, height, width = shape
    for row, image in enumerate(_images(name, table)):
        size = f"{image.width}x{image.height}"
        rule = f"images of {width}x{height} and of {size}: need one size"
        need((image.width, image.height) == (width, height), "dataset", name, rule)
        try:
            decoded = np.asarray(image.convert(mode))
        except OSError as error:
            raise _undecodable(name, row) from error
        pixels[row] = decoded[None] if mode == "L" else decoded.transpose(2, 0, 1)
        yield row
    pixels.flush()


def _images(name: str, table: Table) -> Iterator[Image]:
    """The images one after another, their pixels not yet decoded."""
    try:
        import PIL.Image
    except ImportError as error:
        raise BadInput("dataset", name, "needs pip install 'favano[data]'") from error
    row = 0
    for batch in table.select_columns("image").iter(batch_size=_ROWS):
        for entry in batch["image"]:
            try:
                yield PIL.Image.open(io.BytesIO(entry["bytes"]))
            except (OSError, TypeError) as error:
                raise _undecodable(name, row) from error
            row += 1


def _undecodable(name: str, row: int) -> BadInput:
    return BadInput("dataset", name, f"image {row} cannot be decoded; need whole PNG or JPEG bytes")


def _common_mode(name: str, tables: dict[str, Table]) -> Mode:
    grey = all(
        image.mode in ("1", "L") for table in tables.values() for image in _images(name, table)
    )
    return "L" if grey else "RGB"


def _first_size(name: str, table: Table) -> tuple[int, int]:
    first = next(_images(name, table))
    return first.height, first.width


def _labels(name: str, table: Table) -> Ints:
    need(len(table) > 0, "dataset", name, "a split without images: need at least one")
    batches = table.select_columns("label").iter(batch_size=_ROWS)
    values = np.concatenate([np.asarray(batch["label"]) for batch in batches])
    rule = f"labels of type {values.dtype}: need integers from 0"
    need(values.dtype.kind in "iu", "dataset", name, rule)
    return values.astype(np.int64)


def _classes(table: Table, labels: Ints) -> int:
    named = getattr(table.features["label"], "num_classes", None)
    return int(named) if named is not None else int(labels.max()) + 1
