"""`load`: a data set by name or path, from the package, a local folder or the hub."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from favano.data import cache
from favano.data.catalogue import DIGITS, FOLDER_PREPROCESSING, KNOWN
from favano.data.dataset import Dataset, Pixels, hold_out, take_fraction
from favano.data.decode import decode
from favano.data.digits import digits
from favano.data.origins import Decoded, find
from favano.data.preprocessing import Preprocessing
from favano.errors import need
from favano.types import Floats

_ROWS = 4096  # counted at once


def load(
    name: str,
    *,
    data_dir: Path | None = None,
    cache_dir: Path | None = None,
    normalise: bool = False,
    holdout: int = 0,
    fraction: float = 1.0,
    seed: int = 0,
    on_image: Callable[[int], None] = lambda total: None,
) -> Dataset:
    """A data set ready to be indexed; images other than the digits' are memory maps.

    Args:
        name: `digits`, `mnist`, `cifar10`, `tiny-imagenet`, or the path of a folder with
            `train-*.parquet` and `test-*.parquet` (or `validation-*.parquet`) files, or with
            the decoded arrays of a cache.
        data_dir: the folder in which a named set has its folder; by default `$FAVANO_DATA`, and
            without either the Hugging Face hub is asked.
        cache_dir: where decoded images are kept; by default `~/.cache/favano`.
        normalise: take mean and standard deviation out also where the default is plain scaling
            (MNIST by the usual constants, digits and folders by their own).
        holdout: test on so many random training images instead of the official test set.
        fraction: keep this share of the training and of the test images, chosen at random.
        seed: of the choice of these and of those held out.
        on_image: while decoding, hears image by image how many there are in all.

    >>> dataset = load("digits")
    >>> len(dataset.train_labels), len(dataset.test_labels), dataset.input_shape
    (1437, 360, (1, 8, 8))
    """
    need(holdout >= 0, "holdout", holdout, "need 0 or more")
    if name == DIGITS:
        dataset = digits()
    else:
        dataset = _decoded(name, data_dir, cache_dir or cache.default_root(), on_image)
    if normalise:
        dataset = replace(dataset, preprocessing=_normalised(dataset))
    if holdout:
        dataset = hold_out(dataset, holdout, seed)
    return take_fraction(dataset, fraction, seed) if fraction < 1 else dataset


def _decoded(
    name: str, data_dir: Path | None, root: Path, on_image: Callable[[int], None]
) -> Dataset:
    origin = find(name, data_dir)
    known = KNOWN.get(name)
    mode, classes = (known.mode, known.classes) if known else (None, None)
    if isinstance(origin, Decoded):
        folder = origin.folder
    else:
        folder = root / origin.cache_name
        write = partial(decode, origin, name=name, mode=mode, classes=classes, on_image=on_image)
        cache.ensure(folder, write)
    preprocessing = known.preprocessing if known else FOLDER_PREPROCESSING
    return Dataset(name, *cache.read(folder), preprocessing)


def _normalised(dataset: Dataset) -> Preprocessing:
    known = KNOWN.get(dataset.name)
    if known:
        return known.normalised
    scale = dataset.preprocessing.scale
    mean, std = _moments(dataset.train_images)
    return replace(
        dataset.preprocessing,
        mean=tuple((mean / scale).tolist()),
        std=tuple((std / scale).tolist()),
    )


def _moments(images: Pixels) -> tuple[Floats, Floats]:
    """Mean and standard deviation of each channel, from exact counts of the 256 values."""
    counts = np.zeros((images.shape[1], 256))  # (C, 256)
    for start in range(0, len(images), _ROWS):
        for channel, count in enumerate(counts):
            count += np.bincount(images[start : start + _ROWS, channel].ravel(), minlength=256)
    frequencies = counts / counts.sum(axis=1, keepdims=True)
    values = np.arange(256.0)
    mean = frequencies @ values  # (C,)
    variance = (frequencies * (values - mean[:, None]) ** 2).sum(axis=1)
    return mean, np.sqrt(variance)
