"""`load`: a data set by name or path, from the package, a local folder or the hub."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from favano.data import cache, text
from favano.data.catalogue import DIGITS, FOLDER_PREPROCESSING, KNOWN
from favano.data.dataset import Dataset, Pixels, Rows, hold_out, take_fraction
from favano.data.decode import decode
from favano.data.digits import digits
from favano.data.natural import file_owners
from favano.data.origins import Decoded, Folder, Origin, find
from favano.data.preprocessing import Preprocessing
from favano.errors import require
from favano.types import Floats

_ROWS = 4096  # images counted at once


def load(
    name: str,
    *,
    data_dir: Path | None = None,
    cache_dir: Path | None = None,
    normalise: bool = False,
    holdout: int = 0,
    fraction: float = 1.0,
    split: str = "",
    seed: int = 0,
    on_image: Callable[[int], None] = lambda total: None,
) -> Dataset:
    """A data set by name or path; its images are memory maps, except those of `digits`.

    Args:
        name: one of `NAMES`, or the path of a folder with `train-*.parquet` and `test-*.parquet`
            (or `validation-*.parquet`) files, or with the decoded arrays of a cache.
        data_dir: the folder that holds a folder per named data set; by default `$FAVANO_DATA`,
            and without either the data set is downloaded from the Hugging Face hub.
        cache_dir: where decoded images are kept; by default `~/.cache/favano`.
        normalise: subtract the mean and divide by the standard deviation even where the paper only
            scales: MNIST with the usual constants, digits and folders with their own.
        holdout: number of random training samples to test on instead of the official test set.
        fraction: share of the training and of the test samples to keep, chosen at random; those
            that are held out are all kept.
        split: how samples will be split; a file that it names is read here.
        seed: of both choices.
        on_image: called after each decoded image with the total number of images.

    >>> dataset = load("digits")
    >>> len(dataset.train.labels), len(dataset.test.labels), dataset.input_shape
    (1437, 360, (1, 8, 8))
    """
    require(holdout >= 0, "holdout", holdout, "need 0 or more")
    root = cache_dir or cache.default_root()
    dataset = digits() if name == DIGITS else _cached(name, data_dir, root, on_image)
    if more := file_owners(split, len(dataset.train.labels)):
        owners = {**dataset.train.owners, **more}
        dataset = replace(dataset, train=replace(dataset.train, owners=owners))
    if normalise:
        dataset = replace(dataset, preprocessing=_normalised(dataset))
    if holdout and dataset.preprocessing.tokens:
        dataset = text.hold_out(dataset, holdout)
    elif holdout:
        dataset = hold_out(dataset, holdout, seed)
    if fraction < 1:
        dataset = take_fraction(dataset, fraction, seed, held_out=holdout > 0)
    return dataset


def _cached(
    name: str, data_dir: Path | None, root: Path, on_image: Callable[[int], None]
) -> Dataset:
    """A data set from the cache, which is filled first if need be."""
    origin, known = find(name, data_dir, root), KNOWN.get(name)
    if known is not None and known.mode is None:
        folder = _filled(origin, root, partial(text.encode, name=name))
        return Dataset(name, *text.read(folder), known.classes, known.preprocessing)
    mode, classes, owner = (known.mode, known.classes, known.owner) if known else (None, None, "")
    write = partial(decode, name=name, mode=mode, classes=classes, owner=owner, on_image=on_image)
    folder = _filled(origin, root, write)
    arrays = cache.read(folder)
    return Dataset(
        name,
        Rows(arrays.train_images, arrays.train_labels, cache.read_owners(folder, "train")),
        Rows(arrays.test_images, arrays.test_labels, cache.read_owners(folder, "test")),
        arrays.classes,
        known.preprocessing if known else FOLDER_PREPROCESSING,
    )


def _filled(origin: Origin | Decoded, root: Path, write: Callable[[Origin, Path], None]) -> Path:
    """The folder of decoded arrays."""
    if isinstance(origin, Decoded):
        return origin.folder
    folder = root / origin.cache_name
    cache.ensure(folder, partial(write, origin))
    if isinstance(origin, Folder):
        cache.note_source(folder, origin.source)
    return folder


def _normalised(dataset: Dataset) -> Preprocessing:
    require(not dataset.preprocessing.tokens, "normalise", True, f"{dataset.name} has no images")
    if dataset.name in KNOWN:
        return KNOWN[dataset.name].normalised
    scale = dataset.preprocessing.scale
    mean, std = (tuple((event / scale).tolist()) for event in _moments(dataset.train.inputs))
    return replace(dataset.preprocessing, mean=mean, std=std)


def _moments(images: Pixels) -> tuple[Floats, Floats]:
    """Mean and standard deviation of each channel, (C,), from exact counts of the 256 values."""
    counts = np.zeros((images.shape[1], 256))  # (C, 256)
    for start in range(0, len(images), _ROWS):
        for channel, count in enumerate(counts):
            count += np.bincount(images[start : start + _ROWS, channel].ravel(), minlength=256)
    frequencies = counts / counts.sum(axis=1, keepdims=True)
    values = np.arange(256.0)
    mean = frequencies @ values  # (C,)
    variance = (frequencies * (values - mean[:, None]) ** 2).sum(axis=1)
    return mean, np.sqrt(variance)
