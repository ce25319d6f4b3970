"""Rows of a result beside those that are computed again."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isclose, isnan

from favano.records import Row
from favano.records.history import columns
from favano.results.digest_check import row_name, same
from favano.run.observer import STOP, ObserverReply

NOISE = 0.02  # numbers that differ by this share may do so because of rounding
_LEAST = 0.005  # as may small ones by this
_SAME_TIME = 1e-9


@dataclass
class Seed:
    """The rows of one seed, and what was found out about them."""

    rows: Sequence[Row]
    difference: str | None = None  # the first one
    ends_early: bool = False  # the run went on no further than the last row
    first: int | None = None  # of those that were computed again
    equal: int = 0  # to the bit
    close: int = 0  # up to rounding
    apart: dict[str, tuple[float, str]] = field(default_factory=dict)  # the most, and in which row

    @property
    def compared(self) -> int:
        """The number of rows that were computed again and found right or close."""
        return self.equal + self.close


@dataclass
class RowComparison:
    """Observes a run, and ends it when a row differs or where the run of the result was ended."""

    seeds: Mapping[int, Seed]
    exact: bool  # whether rows must be equal to the bit

    def __call__(self, cells: Mapping[str, object]) -> ObserverReply | None:
        """Compare a row that was computed again with that of the same time."""
        number, time = cells["seed"], cells["time"]
        assert isinstance(number, int)
        assert isinstance(time, float)
        seed = self.seeds[number]
        place = bisect_left(seed.rows, time * (1 - _SAME_TIME), key=lambda row: row.time)
        if place == len(seed.rows):
            if not seed.ends_early:
                seed.difference = f"the run made here has another row, at time {time:,g}"
            return STOP
        seed.first = place if seed.first is None else seed.first
        self._compare(seed, place, cells)
        last = seed.ends_early and place == len(seed.rows) - 1
        return STOP if seed.difference or last else None

    def _compare(self, seed: Seed, place: int, made: Mapping[str, object]) -> None:
        row = seed.rows[place]
        names = [column for column in columns(row) if not same(row.cell(column), made.get(column))]
        far = [
            name for name in names if self.exact or not _close(name, row.cell(name), made.get(name))
        ]
        if not names:
            seed.equal += 1
        elif far:
            seed.difference = (
                f"{row_name(seed.rows, place)} differs: {far[0]} {made.get(far[0])} here, "
                f"{row.cell(far[0])} in the file"
            )
        else:
            seed.close += 1
            for name in names:
                note_apart(seed.apart, name, row_name(seed.rows, place), row.cell(name), made[name])


def note_apart(
    apart: dict[str, tuple[float, str]], name: str, place: str, value: object, other: object
) -> None:
    """Note how far two numbers are apart, if it is the most under this name."""
    if isinstance(value, float) and isinstance(other, float):
        distance = abs(value - other)
        most = apart[name][0] if name in apart else -1.0
        if not (isnan(most) or distance <= most):
            apart[name] = (distance, place)


def apart_words(apart: Mapping[str, tuple[float, str]]) -> str:
    """The largest difference under each name, and where it is."""
    return ", ".join(f"{name} {most:.2g} ({place})" for name, (most, place) in apart.items())


def _close(name: str, value: object, other: object) -> bool:
    """Whether cells may differ because of rounding; digests then always do."""
    if isinstance(value, float) and isinstance(other, float):
        if name == "time":
            return isclose(value, other, rel_tol=_SAME_TIME)
        return isclose(value, other, rel_tol=NOISE, abs_tol=_LEAST)
    return isinstance(value, str) and isinstance(other, str)
