"""Polling where clients come and go, in a few lines of plain Python that share no code with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log
from random import Random
from typing import NamedTuple

import numpy as np

from favano.schedule import Schedule
from favano.timing import Presence, WhenAway
from favano.types import Floats

Intervals = Sequence[Sequence[tuple[float, float]]]


class Contact(NamedTuple):
    """A client is asked at a tick."""

    tick: int
    client: int
    steps: int
    begin: float  # of its job
    version: int  # that the job began from; -1: the initial model
    there: int  # clients that are there at the tick


@dataclass(frozen=True)
class PolledFleet:
    """Clients, when they are there, and how their steps are drawn."""

    intervals: Intervals
    step: Sequence[Callable[[Random], float]]
    selected: int
    local_steps: int
    period: float
    ticks: int
    when_away: WhenAway

    def run(self, random: Random) -> Iterator[Contact]:
        """The contacts of a run."""
        begin: dict[int, float] = {}  # of the jobs under way
        version = dict.fromkeys(range(len(self.intervals)), -1)
        seen = dict.fromkeys(range(len(self.intervals)), 0.0)
        for tick in range(self.ticks):
            now = (tick + 1) * self.period
            here = []
            for client, rows in enumerate(self.intervals):
                for came, left in rows:
                    if came <= now < left:
                        here.append(client)
                    fresh = client not in begin or self.when_away == "lost"
                    if fresh and seen[client] <= came <= now:
                        begin[client], version[client] = came, self.newest(came, tick)
                seen[client] = now
            asked = sorted(random.sample(here, min(self.selected, len(here))))
            for client in asked:
                room = now - begin[client]
                if self.when_away == "paused":
                    room = sum(
                        min(now, left) - max(begin[client], came)
                        for came, left in self.intervals[client]
                        if came < now and left > begin[client]
                    )
                steps, spent = 0, 0.0
                while steps < self.local_steps:
                    spent += self.step[client](random)
                    if spent > room + 1e-9:
                        break
                    steps += 1
                yield Contact(tick, client, steps, begin[client], version[client], len(here))
                begin[client], version[client] = now, tick

    def newest(self, time: float, tick: int) -> int:
        """The newest version at a time that is no later than this tick."""
        return max(v for v in range(-1, tick) if (v + 1) * self.period <= time)


def geometric(mean: float) -> Callable[[Random], float]:
    def draw(random: Random) -> float:
        units = 1
        while random.random() >= 1 / mean:
            units += 1
        return units

    return draw


def exponential(mean: float) -> Callable[[Random], float]:
    return lambda random: random.expovariate(1 / mean)


def constant(mean: float) -> Callable[[Random], float]:
    return lambda random: mean


def lognormal(mean: float, spread: float = 0.8) -> Callable[[Random], float]:
    return lambda random: random.lognormvariate(log(mean) - spread**2 / 2, spread)


def intervals_of(presence: Presence) -> Intervals:
    """The intervals of each client."""
    first = presence.first.tolist()
    both = list(zip(presence.begin.tolist(), presence.end.tolist(), strict=True))
    return [both[begin:end] for begin, end in pairwise(first)]


def counts(fleet: PolledFleet, runs: int, seed: int) -> Floats:
    """Contacts of each client with each number of steps, by run, (runs, n, K + 1)."""
    seen = np.zeros((runs, len(fleet.intervals), fleet.local_steps + 1))
    for run in range(runs):
        for contact in fleet.run(Random(f"{seed}/{run}")):
            seen[run, contact.client, contact.steps] += 1
    return seen


def worst_error(counted: Floats, contacts: Floats, chance: Floats) -> float:
    """By how many standard errors shares of contacts differ from these chances, at most.

    Counts are by run, (runs, ...). The error is no smaller than that of independent contacts, since
    what is rare may not have happened in any run.
    """
    rest = counted - chance * contacts
    apart = np.sqrt(np.maximum(chance * (1 - chance), 1e-12) * contacts.mean(axis=0))
    error = np.maximum(rest.std(axis=0, ddof=1), apart) / np.sqrt(len(rest))
    return float((np.abs(rest.mean(axis=0)) / error).max())


def schedule_of(fleet: PolledFleet, contacts: Sequence[Contact]) -> Schedule:
    """The schedule of a run, a server step at each tick."""
    time = np.arange(1, fleet.ticks + 1, dtype=np.float64) * fleet.period
    columns = list(zip(*contacts, strict=True))
    tick, client, steps, begin, version = (np.array(column) for column in columns[:5])
    return Schedule(
        clients=len(fleet.intervals),
        local_steps=fleet.local_steps,
        time=time,
        wasted_steps=np.zeros(fleet.ticks, dtype=np.int64),
        client=client,
        steps=steps,
        start_version=version,
        used_by=tick,
        first_step=np.zeros(len(tick), dtype=np.int64),
        begin=begin,
        finish=time[tick],
    )
