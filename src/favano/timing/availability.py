"""When clients are there: recordings, daily patterns, and a law of two states.

Whatever the law, a run knows it as a `Presence`: for each client the intervals in which it is
there, up to the horizon. Draws are functions of the seed and of the client's stream.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf
from pathlib import Path
from typing import Protocol

import numpy as np

from favano.errors import require
from favano.file_sizes import read_given
from favano.rng import Stream, bits, uniform
from favano.types import Floats, Ints, Mask

DAY = 86_400.0  # seconds
_APART = 1 / 12  # of a day: how far clients of one time zone are apart
_BEYOND = 1e-6  # of the horizon, for which presence is known
_DRAWN = 64  # durations that are drawn at once
_MOST = 30_000_000  # intervals of all clients


@dataclass(frozen=True)
class Presence:
    """The intervals [begin, end) in which clients are there, client by client and in order."""

    first: Ints  # (n + 1,) where each client's intervals begin
    begin: Floats  # (m,)
    end: Floats  # (m,)
    until: float | None = None  # the horizon up to which it is known; None: the last end

    @property
    def horizon(self) -> float:
        """The time up to which this is known."""
        return float(self.end.max(initial=0.0)) if self.until is None else self.until

    @property
    def clients(self) -> int:
        """Number of clients n."""
        return len(self.first) - 1

    @cached_property
    def alike(self) -> Ints:
        """Number of each client's intervals, (n,); clients that are there together share it."""
        number: dict[bytes, int] = {}
        both = np.stack([self.begin, self.end], axis=1)
        rows = (row.tobytes() for row in np.split(both, self.first[1:-1]))
        return np.array([number.setdefault(row, len(number)) for row in rows])

    def at(self, client: Ints, time: Floats | float) -> Mask:
        """Whether these clients are there at these times, broadcast."""
        place, there = self._last_begun(client, time)
        return there & (np.asarray(time) < self._ends[place])

    def time_there(self, client: Ints, time: Floats | float) -> Floats:
        """For how long these clients have been there up to these times, broadcast."""
        place, there = self._last_begun(client, time)
        inside = np.minimum(time, self._ends[place]) - self._begins[place]
        before = self._before[place] - self._before[self.first[client]]
        return np.where(there, before + inside, 0.0)

    def after(self, client: Ints, since: Floats | float, work: Floats | float) -> Floats:
        """When these clients will have been there for `work` more; infinity: not up to the horizon.

        Args:
            client: their numbers.
            since: the times from which it counts, broadcast with the others.
            work: positive.
        """
        begin, stop = self.first[client], self.first[np.add(client, 1)]
        needed = self._before[begin] + self.time_there(client, since) + work
        place = _first(self._before[1:], begin, stop, needed)
        time = self._begins[place] + (needed - self._before[place])
        return np.where(place < stop, time, inf)

    def there_from(self, client: Ints, time: Floats | float) -> Floats:
        """When these clients are there, from these times on; infinity: never again."""
        place, there = self._last_begun(client, time)
        following = np.where(there, place + 1, self.first[client])
        begin = np.where(following < self.first[np.add(client, 1)], self._begins[following], inf)
        return np.where(self.at(client, time), time, begin)

    def share(self, horizon: float) -> Floats:
        """Share of the time up to the horizon in which each client is there, (n,)."""
        return self.time_there(np.arange(self.clients), horizon) / horizon

    def changes(self) -> tuple[Floats, Ints, Mask]:
        """Changes in the order of time: when, who, and whether it comes; who leaves goes first."""
        owner = np.tile(np.repeat(np.arange(self.clients), np.diff(self.first)), 2)
        time = np.concatenate([self.end, self.begin])
        comes = np.arange(len(time)) >= len(self.end)
        order = np.lexsort((owner, comes, time))
        return time[order], owner[order], comes[order]

    def _last_begun(self, client: Ints, time: Floats | float) -> tuple[Ints, Mask]:
        """The last interval that has begun, and whether there is one."""
        begin, stop = self.first[client], self.first[np.add(client, 1)]
        place = _first(self.begin, begin, stop, np.nextafter(time, inf)) - 1
        return place, place >= begin

    # With an interval at the end of time, for places before the first and past the last.
    @cached_property
    def _begins(self) -> Floats:
        return np.append(self.begin, inf)

    @cached_property
    def _ends(self) -> Floats:
        return np.append(self.end, inf)

    @cached_property
    def _before(self) -> Floats:
        """Length of all intervals before each, (m + 1,)."""
        return np.concatenate([[0.0], np.cumsum(self.end - self.begin)])


def _first(values: Floats, begin: Ints, stop: Ints, needed: Floats | float) -> Ints:
    """The first place in begin..stop-1 whose value is at least `needed`, else `stop`: bisection."""
    shape = np.broadcast_shapes(np.shape(begin), np.shape(needed))
    low, high = np.broadcast_to(begin, shape).copy(), np.broadcast_to(stop, shape).copy()
    while (open_ := low < high).any():
        middle = (low + high) // 2
        small = open_ & (values[np.minimum(middle, len(values) - 1)] < needed)
        low = np.where(small, middle + 1, low)
        high = np.where(open_ & ~small, middle, high)
    return low


class AvailabilityLaw(Protocol):
    """Says when clients are there."""

    def presence(self, seed: int, streams: Ints, horizon: float) -> Presence:
        """When clients with these streams are there from 0 up to the horizon."""


@dataclass(frozen=True)
class Recorded:
    """Recorded intervals of some clients; more clients begin at a random place of a recording.

    Args:
        rows: for each recorded client its intervals, (m, 2).
        length: of the recording, or of each client's: it begins anew after it; infinity: as it
            ends, it stays.
    """

    rows: Sequence[Floats]
    length: float | Floats = inf

    def presence(self, seed: int, streams: Ints, horizon: float) -> Presence:
        row_of = streams % len(self.rows)
        length = np.broadcast_to(self.length, len(self.rows))[row_of]
        more, shift = streams >= len(self.rows), np.zeros(len(streams))
        most = f"need {len(self.rows)} clients at most, as many as are recorded"
        require(bool(np.isfinite(length[more]).all()), "availability", len(streams), most)
        shift[more] = uniform(seed, Stream.AVAILABILITY, streams[more]) * length[more]
        sizes = np.array([len(row) for row in self.rows])[row_of]
        _need_few(float(np.sum(sizes * ((horizon + shift) // length + 1))))
        rows = []
        parts = zip(row_of.tolist(), length.tolist(), shift.tolist(), strict=True)
        for number, period, offset in parts:
            row = self.rows[number]
            times = np.arange((horizon + offset) // period + 1)[:, None, None]
            rows.append((row if period == inf else row + (times * period - offset)).reshape(-1, 2))
        owner = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
        return _presence(len(rows), owner, np.concatenate(rows), horizon)


@dataclass(frozen=True)
class Daily:
    """Each client is there for a share of every day, from an hour of its own on.

    Clients are dealt out at random to time zones that are evenly apart; those of one zone begin
    within two hours (of a day of 24).
    """

    share: float
    zones: int = 1
    day: float = DAY

    def __post_init__(self) -> None:
        require(0 < self.share < 1, "availability", self.share, "need a share of the day in (0, 1)")
        require(self.zones >= 1, "availability", self.zones, "need at least one time zone")
        require(0 < self.day < inf, "availability", self.day, "need a positive length of the day")

    def presence(self, seed: int, streams: Ints, horizon: float) -> Presence:
        _need_few(len(streams) * horizon / self.day)
        zone = bits(seed, Stream.AVAILABILITY, streams) % np.uint64(self.zones)
        own = uniform(seed, Stream.AVAILABILITY, streams, 1) * _APART
        phase = (zone / self.zones + own) % 1.0
        days = np.arange(-1, int(horizon // self.day) + 1)
        begin = ((days + phase[:, None]) * self.day).ravel()
        owner = np.repeat(np.arange(len(streams)), len(days))
        both = np.stack([begin, begin + self.share * self.day], axis=1)
        return _presence(len(streams), owner, both, horizon)


@dataclass(frozen=True)
class TwoState:
    """There and away in turn, for exponential times; at first as in the long run.

    Args:
        there: mean time there.
        away: mean time away.
    """

    there: float
    away: float

    def __post_init__(self) -> None:
        good = 0 < self.there < inf and 0 < self.away < inf
        require(good, "availability", f"{self.there:g}:{self.away:g}", "need two positive times")

    def presence(self, seed: int, streams: Ints, horizon: float) -> Presence:
        _need_few(len(streams) * horizon / (self.there + self.away))
        share = self.there / (self.there + self.away)
        away = uniform(seed, Stream.AVAILABILITY, streams) >= share  # at first
        times, last = [np.zeros((len(streams), 1))], np.zeros(len(streams))
        while last.min() < horizon:
            index = np.arange(_DRAWN * (len(times) - 1), _DRAWN * len(times))
            mean = np.where((index + away[:, None]) % 2 == 0, self.there, self.away)
            drawn = uniform(seed, Stream.AVAILABILITY, streams[:, None], index + 1)
            times.append(last[:, None] - np.cumsum(mean * np.log(drawn), axis=1))
            last = times[-1][:, -1]
        change = np.concatenate(times, axis=1)
        begin = np.arange(0, change.shape[1] - 2, 2) + away[:, None]
        both = np.stack([np.take_along_axis(change, begin + end, axis=1) for end in (0, 1)], axis=2)
        owner = np.repeat(np.arange(len(streams)), begin.shape[1])
        return _presence(len(streams), owner, both.reshape(-1, 2), horizon)


def joined(parts: Sequence[tuple[Ints, Presence]], clients: int) -> Presence:
    """When all clients 0..n-1 are there, from parts with the numbers of their clients."""
    owner = np.concatenate([np.repeat(who, np.diff(part.first)) for who, part in parts])
    begin = np.concatenate([part.begin for _, part in parts])
    end = np.concatenate([part.end for _, part in parts])
    order = np.lexsort((begin, owner))
    first = np.searchsorted(owner[order], np.arange(clients + 1))
    return Presence(first, begin[order], end[order], parts[0][1].until)


def always(clients: int, horizon: float) -> Presence:
    """Clients that are there from 0 up to the horizon."""
    ends = np.full(clients, float(horizon) * (1 + _BEYOND))
    return Presence(np.arange(clients + 1), np.zeros(clients), ends, horizon)


def _need_few(intervals: float) -> None:
    """Refuse a recording or a law that comes and goes too often to be held in memory."""
    rule = f"would have more than {_MOST:,} intervals up to the horizon"
    require(intervals <= _MOST, "availability", f"{intervals:.3g} intervals", rule)


def _presence(clients: int, owner: Ints, intervals: Floats, horizon: float) -> Presence:
    """Intervals in order, (m, 2), from 0 up to the horizon; those that touch are one.

    They end a little later, so that who is there at the horizon has not left.
    """
    begin, end = np.clip(intervals, 0.0, horizon * (1 + _BEYOND)).T
    some = begin < end
    owner, begin, end = owner[some], begin[some], end[some]
    apart = (owner[1:] != owner[:-1]) | (begin[1:] > end[:-1])
    starts, stops = np.append([True], apart)[: len(owner)], np.append(apart, [True])[: len(owner)]
    first = np.searchsorted(owner[starts], np.arange(clients + 1))
    return Presence(first, begin[starts], end[stops], horizon)


def read_availability(path: Path, length: float = inf) -> Recorded:
    """A recording from a CSV file: the line `client,second,available`, then one line per change.

    Clients are numbered 0, 1, ... without a gap and their lines are in the order of time; before
    its first line a client is away. `available` is 1 or 0 and holds from that second on.
    """
    name = f"trace:{path}"
    header, *lines = read_given(path, "availability", name, "utf-8-sig").splitlines() or [""]
    columns = [column.strip().lower() for column in header.split(",")]
    rule = f"need client,second,available as the first line, found {header[:40]!r}"
    require(columns == ["client", "second", "available"], "availability", name, rule)
    changes: dict[int, list[tuple[float, bool]]] = {}
    for number, line in enumerate(lines, start=2):
        if line.strip():
            client, second, there = _change(line, f"line {number}", name)
            times = changes.setdefault(client, [])
            rule = f"line {number}, {line[:40]!r}: the client's lines are not in the order of time"
            require(not times or second >= times[-1][0], "availability", name, rule)
            times.append((second, there))
    require(bool(changes), "availability", name, "holds no client below its first line")
    gap = next((client for client in range(len(changes)) if client not in changes), None)
    rule = f"client {gap} has no line; clients are numbered 0, 1, ... without a gap"
    require(gap is None, "availability", name, rule)
    return Recorded([_intervals(changes[client], length) for client in range(len(changes))], length)


def _change(line: str, place: str, name: str) -> tuple[int, float, bool]:
    try:
        client, second, there = (float(part) for part in line.split(","))
    except ValueError:
        client = second = there = np.nan
    good = client >= 0 and client.is_integer() and 0 <= second < inf and there in (0, 1)
    rule = "need a client (0, 1, ...), a second >= 0, and 1 or 0"
    require(good, "availability", name, f"{place}, {line[:40]!r}: {rule}")
    return int(client), second, there == 1


def _intervals(changes: Sequence[tuple[float, bool]], length: float) -> Floats:
    ends = [second for second, _ in changes[1:]] + [inf]
    both = np.array([(*change, end) for change, end in zip(changes, ends, strict=True)])
    row: Floats = both[both[:, 1] == 1][:, [0, 2]]
    return np.minimum(row, length)
