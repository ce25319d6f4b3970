"""Encoded images of an origin, decoded into `.npy` files of raw pixels."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from favano.data import cache
from favano.data.catalogue import Mode
from favano.data.origins import Origin
from favano.data.pixels import white_of
from favano.data.tables import codes_of, owner_codes, tables_of
from favano.errors import BadInput, require
from favano.rng import Stream, permutation
from favano.types import Ints

if TYPE_CHECKING:
    import pyarrow
    from PIL.Image import Image

_IMAGE, _LABEL = ("image", "img"), ("label", "character")  # columns
_WHITE = (1, 255)  # of images that lose nothing in bytes
_ROWS = 1000  # read at once
_TENTH = 10
_SPLIT_SEED = 0  # every run has the same test set


def decode(
    origin: Origin,
    folder: Path,
    *,
    name: str,
    mode: Mode | None,
    classes: int | None,
    owner: str = "",
    on_image: Callable[[int], None],
) -> None:
    """Fill `folder` with the arrays of `favano.data.cache.Arrays`, and whose the images are.

    Args:
        origin: where the images are.
        folder: an existing, empty folder.
        name: the data set, for messages.
        mode: grey or colour; None means grey if every image is grey.
        classes: number of classes; None means that of the files, or the largest label plus one.
        owner: the column of the clients, if the data have no test set.
        on_image: called after each image with the total number of images.
    """
    with tables_of(origin, folder, name) as given:
        complete = given if "test" in given else _with_test(given["train"], owner, name)
        owners = owner_codes(complete, leave_out=(*_IMAGE, *_LABEL))
        tables = {part: _two_columns(name, table) for part, table in complete.items()}
        chosen = mode or _common_mode(name, tables)
        labels = {part: _labels(name, table) for part, table in tables.items()}
        count = classes or _named_classes(tables["train"]) or int(labels["train"].max()) + 1
        for part, values in labels.items():
            low, high = int(values.min()), int(values.max())
            rule = f"{part} labels run from {low} to {high}: need 0..{count - 1}"
            require(low >= 0 and high < count, "dataset", name, rule)
            np.save(folder / f"{part}_labels.npy", values)
            if owners[part]:
                cache.write_owners(folder, part, owners[part])
        first = next(_images(name, tables["train"]))
        shape = (1 if chosen == "L" else 3, first.height, first.width)
        total = sum(len(values) for values in labels.values())
        for part, table in tables.items():
            for _ in _write_images(name, table, folder / f"{part}_images.npy", chosen, shape):
                on_image(total)
        np.save(folder / "classes.npy", np.int64(count))
        del given, complete, tables, table  # closes the memory maps


def _with_test(table: pyarrow.Table, owner: str, name: str) -> dict[str, pyarrow.Table]:
    """Every tenth image of each owner, in random order, for testing; LEAF's share."""
    rule = f"columns {', '.join(table.column_names)}: need {owner}"
    require(owner in table.column_names, "dataset", name, rule)
    codes = codes_of(table[owner])
    order = permutation(_SPLIT_SEED, Stream.HOLDOUT, len(codes))
    order = order[np.argsort(codes[order], kind="stable")]  # by owner
    _, first, size = np.unique(codes[order], return_index=True, return_counts=True)
    rank = np.arange(len(order)) - np.repeat(first, size)
    held = rank % _TENTH == _TENTH - 1
    parts = {"train": order[~held], "test": order[held]}
    return {part: table.take(np.sort(places)) for part, places in parts.items()}


def _two_columns(name: str, table: pyarrow.Table) -> pyarrow.Table:
    """The columns `image` and `label` alone."""
    present = table.column_names
    chosen = [
        next((column for column in names if column in present), None) for names in (_IMAGE, _LABEL)
    ]
    rule = f"columns {', '.join(present)}: need image (or img) and label (or character)"
    require(None not in chosen, "dataset", name, rule)
    columns = table.select(chosen).rename_columns(["image", "label"])
    return columns.replace_schema_metadata(table.schema.metadata)


def _named_classes(table: pyarrow.Table) -> int | None:
    """The number of class names in the metadata that Hugging Face adds to its files."""
    try:
        features = json.loads(table.schema.metadata[b"huggingface"])["info"]["features"]
        return len(next(features[column] for column in _LABEL if column in features)["names"])
    except (KeyError, TypeError, ValueError, StopIteration):
        return None


def _write_images(
    name: str, table: pyarrow.Table, path: Path, mode: Mode, shape: tuple[int, int, int]
) -> Iterator[int]:
    """Write all images; yields the number of each once it is written."""
    pixels = np.lib.format.open_memmap(
        path, mode="w+", dtype=np.uint8, shape=(len(table), *shape)
    )  # (N, C, H, W)
    _, height, width = shape
    for row, image in enumerate(_images(name, table)):
        rule = f"images of {width}x{height} and of {image.width}x{image.height}: need one size"
        require((image.width, image.height) == (width, height), "dataset", name, rule)
        rule = (
            f"image {row} is of Pillow's kind {image.mode}: need 1 or 8 bits per colour; convert "
            "it, or give what datasets.load_dataset returns to favano.Problem, which takes 16 bits"
        )
        require(white_of(image) in _WHITE, "dataset", name, rule)
        try:
            decoded = np.asarray(image.convert(mode))
        except OSError as error:
            raise _undecodable(name, row) from error
        pixels[row] = decoded[None] if mode == "L" else decoded.transpose(2, 0, 1)
        yield row
    pixels.flush()


def _images(name: str, table: pyarrow.Table) -> Iterator[Image]:
    """The images one after another, their pixels not yet decoded."""
    try:
        import PIL.Image
    except ImportError as error:
        raise BadInput("dataset", name, "needs pip install 'favano[data]'") from error
    batches = table.select(["image"]).to_batches(max_chunksize=_ROWS)
    entries = (entry for batch in batches for entry in batch["image"].to_pylist())
    for row, entry in enumerate(entries):
        try:
            yield PIL.Image.open(io.BytesIO(entry["bytes"] if isinstance(entry, dict) else entry))
        except (OSError, TypeError) as error:
            raise _undecodable(name, row) from error


def _undecodable(name: str, row: int) -> BadInput:
    return BadInput("dataset", name, f"image {row} cannot be decoded; need whole PNG or JPEG bytes")


def _common_mode(name: str, tables: dict[str, pyarrow.Table]) -> Mode:
    images = (image for table in tables.values() for image in _images(name, table))
    return "L" if all(image.mode in ("1", "L") for image in images) else "RGB"


def _labels(name: str, table: pyarrow.Table) -> Ints:
    require(len(table) > 0, "dataset", name, "a split has no images: need at least one")
    values = np.asarray(table["label"].to_pylist())
    rule = f"labels of type {values.dtype}: need integers from 0"
    require(values.dtype.kind in "iu", "dataset", name, rule)
    return values.astype(np.int64)
