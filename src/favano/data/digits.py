"""The built-in data set: scikit-learn's 1,797 handwritten digits of 8x8 pixels."""

from __future__ import annotations

import gzip
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from favano.data.catalogue import DIGITS, DIGITS_PREPROCESSING
from favano.data.dataset import Dataset, Pixels, Rows
from favano.rng import Stream, permutation
from favano.types import Ints

_TEST_SIZE = 360  # 20 per cent
_SPLIT_SEED = 0  # every run has the same test set


def digits() -> Dataset:
    """The digits with values 0..16: 1,437 for training and 360 for testing."""
    table = _table()
    labels: Ints = table[:, -1].astype(np.int64)
    images: Pixels = table[:, :-1].reshape(-1, 1, 8, 8)
    order = permutation(_SPLIT_SEED, Stream.HOLDOUT, len(labels))
    test, train = np.sort(order[:_TEST_SIZE]), np.sort(order[_TEST_SIZE:])
    return Dataset(
        name=DIGITS,
        train=Rows(images[train], labels[train]),
        test=Rows(images[test], labels[test]),
        classes=10,
        preprocessing=DIGITS_PREPROCESSING,
    )


def _table() -> Pixels:
    """Pixels and label of each digit, (N, 65), from the file of scikit-learn.

    The package itself is not imported, which would take longer than a short run.
    """
    package = find_spec("sklearn")
    assert package is not None
    folder = Path(str(package.origin)).parent
    with gzip.open(folder / "datasets" / "data" / "digits.csv.gz", "rt") as file:
        return np.loadtxt(file, delimiter=",", dtype=np.uint8)
