"""A search for settings: points that are tried on rungs, the best of each rung on the next one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from favano.errors import require

FIRST_SEED: Final = 1000  # of a search; reported seeds are 0, 1, ... and stay below
Point: TypeAlias = Mapping[str, object]  # values by key
_FACTOR = 3  # of successive halving: a third of the points go on, for three times as long


class Rung(NamedTuple):
    """How many points of each method are tried, and for how long."""

    time: float  # share of the horizon
    points: int


@dataclass(frozen=True)
class Search:
    """The same search for every method: as many points, on the same held-out samples and seeds.

    Args:
        rungs: all points are tried on the first, the best on the next, to the end on the last.
        holdout: training samples that are held out to judge them.
        seeds: number of seeds of each point, which no table uses.
    """

    rungs: tuple[Rung, ...]
    holdout: int
    seeds: int = 1


class SearchGrid(NamedTuple):
    """Client rates as multiples of an experiment's own, and server rates."""

    client: tuple[float, ...]
    server: tuple[float, ...]


@dataclass(frozen=True)
class RateSearch:
    """A search for the learning rates of an experiment, with a grid for every method."""

    grids: Mapping[str, SearchGrid]
    search: Search

    def __post_init__(self) -> None:
        sizes = {len(grid.client) * len(grid.server) for grid in self.grids.values()}
        rule = "need equally many pairs for every method, those of the first rung"
        require(sizes == {self.search.rungs[0].points}, "grids", sizes, rule)


def to_the_end(points: int) -> tuple[Rung, ...]:
    """All points are tried for the whole time."""
    return (Rung(1.0, points),)


def halving(points: int) -> tuple[Rung, ...]:
    """Successive halving: a third of the points go on, for three times as long.

    Jamieson, Talwalkar, "Non-stochastic Best Arm Identification and Hyperparameter Optimization",
    AISTATS 2016, with the factor 3 of Hyperband.

    >>> [(round(1 / rung.time), rung.points) for rung in halving(35)]
    [(9, 35), (3, 12), (1, 4)]
    """
    counts = [points]
    while len(counts) < 2 or counts[-1] >= 2 * _FACTOR:
        counts.append(-(-counts[-1] // _FACTOR))
    last = len(counts) - 1
    return tuple(Rung(_FACTOR ** (rung - last), count) for rung, count in enumerate(counts))
