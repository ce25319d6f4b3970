"""A table or figure of the paper: the runs behind it, and what the paper says of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TypeAlias

from favano.errors import need
from favano.specification.digest import run_digest
from favano.specification.presets import resolve
from favano.specification.spec import Spec, changed, given, make_spec

PAPER = "paper"  # the reading whose numbers stand beside the paper's
_POINTS = 20  # evaluations of a scaled run, at least


@dataclass(frozen=True)
class Run:
    """One seed in one cell: reading and column name the cell, the specification is complete."""

    reading: str
    column: str
    spec: Spec

    @property
    def digest(self) -> str:
        """A name for the result: two runs of equal specification are one run."""
        return run_digest(self.spec)


Panel: TypeAlias = tuple[str, str]  # measure and axis: accuracy against time
Cell: TypeAlias = tuple[str, str]  # algorithm and column


@dataclass(frozen=True)
class Reading:
    """Another way to read the paper: keys that some methods take instead of ours.

    With `splits` it is about how data are dealt out, and says nothing of IID columns.
    """

    text: str
    algorithms: tuple[str, ...]
    keys: Mapping[str, object]
    splits: bool = False


@dataclass(frozen=True)
class Experiment:
    """A table or figure by its name on the command line.

    Args:
        name: as `favano reproduce` takes it.
        title: one line on what it shows.
        runs: the runs behind it, of so many seeds.
        seeds: how many, unless said otherwise.
        lines: what is compared, by algorithm or else by reading, with the names to print; one
            that has no runs yet is shown as missing.
        columns: settings and their headings.
        paper: mean and standard deviation that the paper gives for a cell, in per cent.
        figures: a grid of panels for each picture, by file name.
        readings: other readings that can be run beside it.
        note: what a reader must know beside the numbers.
    """

    name: str
    title: str
    runs: Callable[[int], list[Run]]
    seeds: int
    lines: Mapping[str, str]
    columns: Mapping[str, str]
    paper: Mapping[Cell, tuple[float, float]] = field(default_factory=dict)
    figures: Mapping[str, tuple[tuple[Panel, ...], ...]] = field(default_factory=dict)
    readings: Mapping[str, Reading] = field(default_factory=dict)
    note: str = ""

    @property
    def compares_methods(self) -> bool:
        """Whether its lines are methods, FAVANO among them."""
        return "favano" in self.lines


def seeded(
    reading: str, column: str, keys: Mapping[str, object], seeds: Sequence[int]
) -> list[Run]:
    """The runs of one cell, one a seed."""
    return [Run(reading, column, resolve(make_spec({**keys, "seed": seed}))) for seed in seeds]


def prepared(
    runs: Sequence[Run],
    *,
    scale: float,
    device: str,
    changes: Mapping[str, object] = MappingProxyType({}),
) -> list[Run]:
    """The same runs on a device and with some keys replaced in all of them.

    A `scale` below one leaves a share of the horizon and of the data, for a quick look.
    """
    found = [replace(run, spec=_scaled(run.spec, scale, device)) for run in runs]
    if not changes:
        return found
    return [replace(run, spec=make(run.spec, changes)) for run in found]


def _scaled(spec: Spec, scale: float, device: str) -> Spec:
    update: dict[str, object] = {"device": device}
    if scale < 1:
        horizon = given(spec.run.horizon) * scale
        every = min(given(spec.run.evaluate_every), horizon / _POINTS)
        update |= {"horizon": horizon, "evaluate_every": every, "data_fraction": scale}
    return resolve(changed(spec, update))


def read_otherwise(
    runs: Sequence[Run], readings: Mapping[str, Reading], names: Sequence[str]
) -> list[Run]:
    """The runs of other readings, beside those of `runs` that they are about."""
    found = []
    for name in names:
        known = ", ".join(readings) or "none here"
        need(name in readings, "readings", name, f"unknown; need all or some of {known}")
        reading = readings[name]
        found += [
            Run(name, run.column, make(run.spec, reading.keys))
            for run in runs
            if run.spec.method.name in reading.algorithms
            and not (reading.splits and run.spec.problem.split == "iid")
        ]
    return found


def make(spec: Spec, keys: Mapping[str, object]) -> Spec:
    """A complete specification with some keys replaced, checked again."""
    return resolve(changed(spec, keys))
