"""Rows of a result beside those that are computed again."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isclose

from favano.records import Row
from favano.records.history import columns
from favano.run.observer import STOP, Answer
from favano.run.statement import row_name, same

NOISE = 0.05  # numbers that differ by this share may do so because of rounding
_LEAST = 0.02  # as may small ones by this
_SAME_TIME = 1e-9


@dataclass
class Seed:
    """The rows of one seed, and what was found out about them."""

    rows: Sequence[Row]
    first: int | None = None  # of those that were computed again
    equal: int = 0  # to the bit
    close: int = 0  # up to rounding
    difference: str | None = None  # the first one

    @property
    def compared(self) -> int:
        """The number of rows that were computed again and found right."""
        return self.equal + self.close


@dataclass
class RowComparison:
    """Observes a run, and ends it when there is nothing left to compare."""

    seeds: Mapping[int, Seed]
    exact: bool  # whether rows must be equal to the bit

    def __call__(self, cells: Mapping[str, object]) -> Answer | None:
        """Compare a row that was computed again with that of the same time."""
        number, time = cells["seed"], cells["time"]
        assert isinstance(number, int)
        assert isinstance(time, float)
        seed = self.seeds.get(number)
        if seed is None or seed.difference is not None:
            return STOP
        place = bisect_left(seed.rows, time * (1 - _SAME_TIME), key=lambda row: row.time)
        if place == len(seed.rows):  # a result that was interrupted
            return STOP
        seed.first = place if seed.first is None else seed.first
        self._compare(seed, place, cells)
        return STOP if seed.difference or place == len(seed.rows) - 1 else None

    def _compare(self, seed: Seed, place: int, found: Mapping[str, object]) -> None:
        row = seed.rows[place]
        names = columns(row.metrics, digests=bool(row.digest))
        differing = [name for name in names if not same(row.cell(name), found.get(name))]
        if not differing:
            seed.equal += 1
        elif not self.exact and all(_close(row.cell(name), found.get(name)) for name in differing):
            seed.close += 1
        else:
            name = differing[0]
            if not self.exact:
                name = next(one for one in names if not _close(row.cell(one), found.get(one)))
            seed.difference = (
                f"{row_name(seed.rows, place)} differs: {name} {found.get(name)} here, "
                f"{row.cell(name)} in the file"
            )


def _close(one: object, other: object) -> bool:
    """Whether cells may differ because of rounding; digests then always do."""
    if isinstance(one, float) and isinstance(other, float):
        return same(one, other) or isclose(one, other, rel_tol=NOISE, abs_tol=_LEAST)
    return same(one, other) or isinstance(one, str)
