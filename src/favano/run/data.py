"""The data set that a specification names, as NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from favano.data import Dataset, is_natural, load
from favano.options import options_of
from favano.specification.parts import ProblemPart
from favano.specification.presets import OWN, preset_of


def load_data(
    problem: ProblemPart,
    data_dir: Path | None = None,
    on_image: Callable[[int], None] = lambda total: None,
) -> Dataset:
    """The data set, the same for all seeds; `on_image` is called for each decoded image."""
    return load(
        problem.dataset,
        data_dir=data_dir,
        normalise=problem.normalise,
        holdout=problem.holdout,
        fraction=problem.data_fraction,
        split=split_of(problem),
        on_image=on_image,
    )


def split_of(problem: ProblemPart) -> str:
    """The split of a problem, perhaps that of its data set."""
    return problem.split or preset_of(problem.dataset).split


def with_holdout(
    keys: Mapping[str, object],
    data_dir: Path | None = None,
    on_image: Callable[[int], None] = lambda total: None,
) -> dict[str, object]:
    """Flat keys with a fifth of the training samples held out, if they do not say how many."""
    own = {key: value for key, value in keys.items() if key in options_of(ProblemPart)}
    problem = ProblemPart(**own)  # type: ignore[arg-type]
    if problem.holdout or OWN in (problem.split, problem.dataset):
        return dict(keys)
    samples = len(load_data(problem, data_dir, on_image).train.labels)
    return {**keys, "holdout": a_fifth(samples)}


def a_fifth(samples: int) -> int:
    """How many training samples are held out if nobody says how many."""
    return max(1, samples // 5)


def with_clients(
    keys: Mapping[str, object],
    data_dir: Path | None = None,
    on_image: Callable[[int], None] = lambda total: None,
) -> dict[str, object]:
    """Flat keys with the number of clients that the data have, if their split is natural."""
    own = {key: value for key, value in keys.items() if key in options_of(ProblemPart)}
    problem = ProblemPart(**own)  # type: ignore[arg-type]
    how = split_of(problem)
    if "clients" in keys or not is_natural(how) or OWN in (how, problem.dataset):
        return dict(keys)
    traits = load_data(problem, data_dir, on_image).traits
    return {**keys, "clients": traits.clients_by(how)}
