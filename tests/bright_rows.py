"""Images that a small network learns at once."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from favano.types import Ints


def write_bright_rows(folder: Path, classes: int, **counts: int) -> dict[str, Ints]:
    """Decoded arrays in MNIST's shape: noise with one bright row by class. Returns the labels.

    `counts` are the numbers of images of each part, `train` and `test`.
    """
    folder.mkdir(parents=True)
    generator, by_part = np.random.default_rng(0), {}
    for part, count in counts.items():
        by_part[part] = labels = np.arange(count) % classes
        images = generator.integers(0, 60, (count, 1, 28, 28), dtype=np.uint8)
        images[np.arange(count), 0, 3 * labels % 28] = 255
        np.save(folder / f"{part}_images.npy", images)
        np.save(folder / f"{part}_labels.npy", labels)
    np.save(folder / "classes.npy", np.int64(classes))
    return by_part
