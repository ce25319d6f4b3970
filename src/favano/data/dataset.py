"""A data set in memory or mapped into it: samples for training and testing, and how to use them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from favano.data.partition import Traits
from favano.data.preprocessing import Preprocessing
from favano.errors import require
from favano.rng import Stream, permutation
from favano.types import Ints

Pixels: TypeAlias = npt.NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class Rows:
    """Samples: their inputs, their classes, and whose they are.

    The inputs may be read-only memory maps: index them, never write into them.
    """

    inputs: Pixels  # (N, ...), images or characters
    labels: Ints  # (N,)
    owners: Mapping[str, Ints] = field(default_factory=dict)  # (N,) by column; -1: nobody's

    def take(self, chosen: Ints) -> Rows:
        """Some of the samples."""
        owners = {column: who[chosen] for column, who in self.owners.items()}
        return Rows(self.inputs[chosen], self.labels[chosen], owners)


@dataclass(frozen=True, eq=False)
class Dataset:
    """Samples with labels 0..classes-1; images have the shape (N, C, H, W)."""

    name: str
    train: Rows
    test: Rows
    classes: int
    preprocessing: Preprocessing

    def __post_init__(self) -> None:
        for part, rows in (("train", self.train), ("test", self.test)):
            inputs, labels = rows.inputs, rows.labels
            fits = self.preprocessing.tokens or inputs.ndim == 4
            self._need(fits, f"{part} images of shape {inputs.shape}: need N, C, H, W")
            self._need(
                len(inputs) == len(labels) > 0,
                f"{len(inputs)} {part} samples and {len(labels)} labels: need equally many, not 0",
            )
            for column, owners in rows.owners.items():
                rule = f"{column} names {len(owners)} owners of {len(labels)} {part} samples"
                self._need(len(owners) == len(labels), f"{rule}: need equally many")
            low, high = int(labels.min()), int(labels.max())
            self._need(
                low >= 0 and high < self.classes,
                f"{part} labels run from {low} to {high}: need 0..{self.classes - 1}",
            )
        train, test = self.train.inputs.shape[1:], self.test.inputs.shape[1:]
        self._need(train == test, f"train samples are {train}, test samples {test}: need one shape")
        channels, expected = train[0], len(self.preprocessing.mean)
        self._need(
            expected in (0, channels),
            f"images of {channels} channels, preprocessing for {expected}: need equally many",
        )

    @property
    def traits(self) -> Traits:
        """What a split may know of the training samples."""
        rows = self.train
        return Traits(len(rows.labels), rows.labels, self.classes, rows.owners)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one input: channels, height and width of an image."""
        return self.train.inputs.shape[1:]

    def _need(self, condition: bool, rule: str) -> None:
        require(condition, "dataset", self.name, rule)


def hold_out(dataset: Dataset, count: int, seed: int) -> Dataset:
    """Test on `count` random training samples instead of the official test set.

    Reading A19 of the paper's "unseen validation dataset".
    """
    size = len(dataset.train.labels)
    require(
        0 < count < size, "holdout", count, f"need 1..{size - 1}, or 0 for the official test set"
    )
    order = permutation(seed, Stream.HOLDOUT, size)
    held, kept = np.sort(order[:count]), np.sort(order[count:])
    return replace(dataset, train=dataset.train.take(kept), test=dataset.train.take(held))


def take_fraction(
    dataset: Dataset, fraction: float, seed: int, *, held_out: bool = False
) -> Dataset:
    """A random share of the samples of every class, at least one, for training and for testing.

    Test samples that were `held_out` all stay: their number was asked for.
    """
    require(0 < fraction <= 1, "data_fraction", fraction, "need a number > 0, 1 at most")
    train, test = (
        rows.take(_share(rows.labels, fraction, seed, client=1 + part))
        for part, rows in enumerate((dataset.train, dataset.test))
    )
    return replace(dataset, train=train, test=dataset.test if held_out else test)


def _share(labels: Ints, fraction: float, seed: int, client: int) -> Ints:
    """Sorted positions of a random share of each class."""
    order = permutation(seed, Stream.HOLDOUT, len(labels), client=client)
    by_class = (order[labels[order] == label] for label in np.unique(labels))
    kept = [members[: max(1, round(fraction * len(members)))] for members in by_class]
    return np.sort(np.concatenate(kept))
