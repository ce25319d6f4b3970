"""A table or figure: its runs, the search for their rates, and the paper's numbers for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TypeAlias

from favano.errors import require
from favano.specification.digest import run_digest
from favano.specification.presets import resolve
from favano.specification.spec import Spec, changed, make_spec, required
from favano.studies.search import RateSearch

PAPER = "paper"  # the reading that is compared with the paper's numbers
_POINTS = 20  # evaluations of a scaled run, at least


@dataclass(frozen=True)
class StudyRun:
    """One seed in one cell, with its complete specification."""

    reading: str
    column: str
    spec: Spec

    @property
    def digest(self) -> str:
        """A name for the result: runs of equal specification are one run."""
        return run_digest(self.spec)


Panels: TypeAlias = tuple[tuple[tuple[str, str], ...], ...]  # rows of (measure, axis)
Cell: TypeAlias = tuple[str, str]  # algorithm and column


@dataclass(frozen=True)
class Reading:
    """Another way to read the paper: keys that replace ours for some methods.

    With `splits` it is about how data are dealt out, and IID columns are left out. Its runs are
    `time` times as long.
    """

    text: str
    algorithms: tuple[str, ...]
    keys: Mapping[str, object]
    splits: bool = False
    time: float = 1.0


@dataclass(frozen=True)
class Experiment:
    """A table or figure by its name on the command line.

    Args:
        name: argument of `favano reproduce`.
        title: one line on what it shows.
        runs: makes the runs for a number of seeds.
        seeds: default number of seeds.
        lines: the names to print by algorithm, or by reading; one without runs is shown as missing.
        columns: settings and their headings.
        paper: the paper's mean and standard deviation of a cell, in per cent.
        figures: a grid of panels for each picture, by file name.
        readings: other readings that can be run.
        note: what a reader must know to understand the numbers.
        search: how rates can be tuned; None where methods are not compared.
        ours: not the paper's; its runs have the rates that the search finds.
        about: facts on its data and on published numbers, by name.
    """

    name: str
    title: str
    runs: Callable[[int], list[StudyRun]]
    seeds: int
    lines: Mapping[str, str]
    columns: Mapping[str, str]
    paper: Mapping[Cell, tuple[float, float]] = field(default_factory=dict)
    figures: Mapping[str, Panels] = field(default_factory=dict)
    readings: Mapping[str, Reading] = field(default_factory=dict)
    note: str = ""
    search: RateSearch | None = None
    ours: bool = False
    about: Mapping[str, str] = field(default_factory=dict)


def seeded(
    reading: str, column: str, keys: Mapping[str, object], seeds: Sequence[int]
) -> list[StudyRun]:
    """The runs of one cell, one per seed."""
    return [StudyRun(reading, column, resolve(make_spec({**keys, "seed": seed}))) for seed in seeds]


def prepared(
    runs: Sequence[StudyRun],
    *,
    scale: float,
    device: str,
    changes: Mapping[str, object] = MappingProxyType({}),
) -> list[StudyRun]:
    """The runs on a device, with some keys replaced in all of them.

    A `scale` below one keeps that share of the horizon and of the data, for a quick look.
    """
    scaled = [replace(run, spec=_scaled(run.spec, scale, device)) for run in runs]
    return [replace(run, spec=make(run.spec, changes)) for run in scaled] if changes else scaled


def _scaled(spec: Spec, scale: float, device: str) -> Spec:
    update: dict[str, object] = {"device": device}
    if scale < 1:
        horizon = required(spec.run.horizon) * scale
        every = min(required(spec.run.evaluate_every), horizon / _POINTS)
        update |= {"horizon": horizon, "evaluate_every": every, "data_fraction": scale}
    return make(spec, update)


def read_otherwise(
    runs: Sequence[StudyRun], readings: Mapping[str, Reading], names: Sequence[str]
) -> list[StudyRun]:
    """The runs of other readings, for those of `runs` that they apply to."""
    others = []
    for name in names:
        known = ", ".join(readings) or "none here"
        require(name in readings, "readings", name, f"unknown; need all or some of {known}")
        reading = readings[name]
        others += [
            StudyRun(
                name, run.column, make(run.spec, {**reading.keys, **_longer(run.spec, reading)})
            )
            for run in runs
            if run.spec.method.name in reading.algorithms
            and not (reading.splits and run.spec.problem.split == "iid")
        ]
    return others


def _longer(spec: Spec, reading: Reading) -> dict[str, object]:
    horizon = required(spec.run.horizon)
    return {} if reading.time == 1 else {"horizon": reading.time * horizon}


def make(spec: Spec, keys: Mapping[str, object]) -> Spec:
    """A complete specification with some keys replaced, checked again."""
    return resolve(changed(spec, keys))
