"""A data set in memory or mapped into it: raw pixels, labels, and their preprocessing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from favano.data.preprocessing import Preprocessing
from favano.errors import need
from favano.rng import Stream, permutation
from favano.types import Ints

Pixels: TypeAlias = npt.NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class Dataset:
    """Images of shape (N, C, H, W) with labels 0..classes-1, for training and for testing.

    The images may be read-only memory maps: index them, never write into them.
    """

    name: str
    train_images: Pixels  # (N, C, H, W)
    train_labels: Ints  # (N,)
    test_images: Pixels  # (M, C, H, W)
    test_labels: Ints  # (M,)
    classes: int
    preprocessing: Preprocessing

    def __post_init__(self) -> None:
        for part, images, labels in (
            ("train", self.train_images, self.train_labels),
            ("test", self.test_images, self.test_labels),
        ):
            self._need(images.ndim == 4, f"{part} images of shape {images.shape}: need N, C, H, W")
            self._need(
                len(images) == len(labels) > 0,
                f"{len(images)} {part} images and {len(labels)} labels: need equally many, not 0",
            )
            low, high = int(labels.min()), int(labels.max())
            self._need(
                low >= 0 and high < self.classes,
                f"{part} labels run from {low} to {high}: need 0..{self.classes - 1}",
            )
        train, test = self.train_images.shape[1:], self.test_images.shape[1:]
        self._need(train == test, f"train images are {train}, test images {test}: need one shape")
        channels, expected = self.train_images.shape[1], len(self.preprocessing.mean)
        self._need(
            expected in (0, channels),
            f"images of {channels} channels, preprocessing for {expected}: need equally many",
        )

    @property
    def input_shape(self) -> tuple[int, int, int]:
        """Channels, height and width of one image."""
        _, channels, height, width = self.train_images.shape
        return channels, height, width

    def _need(self, condition: bool, rule: str) -> None:
        need(condition, "dataset", self.name, rule)


def hold_out(dataset: Dataset, count: int, seed: int) -> Dataset:
    """Test on `count` random training images instead of the official test set.

    Reading A19 of the paper's "unseen validation dataset".
    """
    size = len(dataset.train_labels)
    need(0 < count < size, "holdout", count, f"need 1..{size - 1}, or 0 for the official test set")
    order = permutation(seed, Stream.HOLDOUT, size)
    held, kept = np.sort(order[:count]), np.sort(order[count:])
    return replace(
        dataset,
        train_images=dataset.train_images[kept],
        train_labels=dataset.train_labels[kept],
        test_images=dataset.train_images[held],
        test_labels=dataset.train_labels[held],
    )


def take_fraction(dataset: Dataset, fraction: float, seed: int) -> Dataset:
    """A random share of the images of every class, at least one, for training and for testing."""
    need(0 < fraction <= 1, "data_fraction", fraction, "need a number > 0, 1 at most")
    train, test = (
        _share(labels, fraction, permutation(seed, Stream.HOLDOUT, len(labels), client=1 + part))
        for part, labels in enumerate((dataset.train_labels, dataset.test_labels))
    )
    return replace(
        dataset,
        train_images=dataset.train_images[train],
        train_labels=dataset.train_labels[train],
        test_images=dataset.test_images[test],
        test_labels=dataset.test_labels[test],
    )


def _share(labels: Ints, fraction: float, order: Ints) -> Ints:
    """Sorted positions of the first `fraction` of each class in this order."""
    by_class = (order[labels[order] == label] for label in np.unique(labels))
    kept = [members[: max(1, round(fraction * len(members)))] for members in by_class]
    return np.sort(np.concatenate(kept))
