"""A search for learning rates: the pairs that each method tries, and on what they are judged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from favano.errors import require

FIRST_SEED: Final = 1000  # of a search; reported seeds are 0, 1, ... and stay below


class SearchGrid(NamedTuple):
    """Client rates as multiples of an experiment's own, and server rates."""

    client: tuple[float, ...]
    server: tuple[float, ...]


@dataclass(frozen=True)
class Search:
    """The same search for every method: as many pairs, on the same held-out samples and seeds.

    Args:
        grids: the pairs that each method tries.
        holdout: training samples that are held out to judge them.
        seeds: number of seeds of each pair, which no table uses.
        time: share of the horizon.
        finalists: the best pairs, which are then tried to the end; the best of these is chosen.
    """

    grids: Mapping[str, SearchGrid]
    holdout: int
    seeds: int = 1
    time: float = 1.0
    finalists: int = 0

    def __post_init__(self) -> None:
        sizes = set(map(_size, self.grids.values()))
        require(len(sizes) == 1, "grids", sizes, "need equally many pairs for every method")

    @property
    def pairs(self) -> int:
        """Number of pairs that each method tries."""
        return _size(next(iter(self.grids.values())))


def _size(grid: SearchGrid) -> int:
    return len(grid.client) * len(grid.server)
