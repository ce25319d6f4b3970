"""The data set that a specification names, as NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from favano.data import Dataset, load
from favano.specification.spec import Spec


def load_data(
    spec: Spec, data_dir: Path | None = None, on_image: Callable[[int], None] = lambda total: None
) -> Dataset:
    """The data set, the same for all seeds; `on_image` is called for each decoded image."""
    return load(
        spec.problem.dataset,
        data_dir=data_dir,
        normalise=spec.problem.normalise,
        holdout=spec.problem.holdout,
        fraction=spec.problem.data_fraction,
        on_image=on_image,
    )
