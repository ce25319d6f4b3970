"""The embedded data set: scikit-learn's 1,797 handwritten digits of 8x8 pixels."""

from __future__ import annotations

import numpy as np

from favano.data.catalogue import DIGITS, DIGITS_PREPROCESSING
from favano.data.dataset import Dataset
from favano.rng import Stream, permutation
from favano.types import Floats, Ints

_TEST_SIZE = 360  # 20 per cent
_SPLIT_SEED = 0  # the same test set for every run, as an official one would be


def digits() -> Dataset:
    """The digits, 1,437 to train on and 360 to test on, values 0..16."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    values: Floats = bunch.images
    labels: Ints = bunch.target.astype(np.int64)
    images = values.astype(np.uint8)[:, None]  # (N, 1, 8, 8)
    order = permutation(_SPLIT_SEED, Stream.HOLDOUT, len(labels))
    test, train = np.sort(order[:_TEST_SIZE]), np.sort(order[_TEST_SIZE:])
    return Dataset(
        name=DIGITS,
        train_images=images[train],
        train_labels=labels[train],
        test_images=images[test],
        test_labels=labels[test],
        classes=10,
        preprocessing=DIGITS_PREPROCESSING,
    )
