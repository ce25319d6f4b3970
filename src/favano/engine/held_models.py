"""Which models the clients of a run hold, by their numbers in its program. NumPy only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from favano.aggregation.snapshot import Held, ResumePoint
from favano.schedule import Schedule
from favano.timing.ties import latest
from favano.types import Floats, Ints, Mask

_AT_ONCE = 1 << 22  # clients times evaluations that are looked at together


class Seen(NamedTuple):
    """A version that is reported."""

    version: int
    server: int  # number of the server model
    # Models that clients hold at its evaluations, and how many do; one for all if they are alike.
    held: list[tuple[Ints, Ints]]
    alive: Ints  # models that clients hold when it is made, or at an evaluation


class HeldModels:
    """Which models the clients of a run hold, at any time.

    A client holds the model of the last job that it has begun, or one of its own.
    """

    def __init__(
        self, plan: Schedule, point: ResumePoint | None, first: int, starts: Ints, own: int | None
    ) -> None:
        self._plan, self._first, self._starts, self._own = plan, first, starts, own
        nobody = np.zeros(plan.clients, np.int64)
        self._held_before = Held(nobody, nobody - 1, nobody > 0, nobody)
        self.server = 0  # the number of the server model before the program
        if point is not None:
            self._held_before, self.server = point.snapshot.held, point.snapshot.server
        self._given, self._given_own = self._held_before.place, self._held_before.own
        begun = np.isfinite(plan.begin) & (plan.start_version >= first)
        if point is None:
            begun |= plan.start_version < 0
        else:
            now = plan.time[first - 1]
            begun[point.jobs] = plan.begin[point.jobs] > now
        jobs = np.flatnonzero(begun)
        self._begun = jobs[np.lexsort((jobs, plan.begin[jobs], plan.client[jobs]))]

    def seen(self, times: Floats, given: int) -> tuple[list[Seen], tuple[Ints, Ints]]:
        """The versions that are reported, and models that snapshots of them need.

        These are the versions that are evaluated, the one before the program, and the last two.
        """
        plan, first, made = self._plan, self._first, np.append(0.0, self._plan.time)
        due, last = plan.versions_at(times), plan.updates - 1
        versions = np.unique([*due, first - 1, max(last - 1, first - 1), last])
        # Each version when it is made; if jobs begin later, also at each of its evaluations.
        of, when, jobs = versions, made[versions + 1], self._begun
        if late := bool((plan.begin[jobs] > latest(made[plan.start_version[jobs] + 1])).any()):
            order = np.argsort(np.append(of, due), kind="stable")
            of, when = np.append(of, due)[order], np.append(when, times)[order]
        parts: dict[int, list[tuple[Ints, Ints]]] = {version: [] for version in versions.tolist()}
        for version, held in zip(of.tolist(), self._held(when, of), strict=True):
            parts[version].append(held)
        seen, evaluated = [], set(due.tolist())
        for version, (at_once, *others) in parts.items():
            server = given + version - first if version >= first else self.server
            alive = np.unique(np.concatenate([at_once[0], *(models for models, _ in others)]))
            measured = others if late else [at_once] * (version in evaluated)
            seen.append(Seen(version, server, measured, alive))
        # Start models of jobs that are not used yet, up to the last report before they are.
        jobs = np.flatnonzero(plan.used_by >= first)
        place = np.searchsorted(versions, plan.used_by[jobs]) - 1
        waits = (place >= 0) & (versions[place] >= plan.start_version[jobs])
        return seen, (self._starts[jobs[waits]], versions[place[waits]])

    def at(self, version: int, time: float = -np.inf) -> Ints:
        """(n,) the model of each client at a time before the next version."""
        last, own = self._last(version, time), self._last_own(version)
        held = np.where(last >= 0, self._starts[last], self._given)
        held = np.where(self._given_own, self._given, held)
        return held if self._own is None else np.where(own >= 0, self._own + own, held)

    def _last(self, version: int, time: float = -np.inf) -> Ints:
        """(n,) the last job that each client has begun; -1: none since the beginning."""
        plan, jobs = self._plan, self._begun
        now = latest(max(time, np.append(0.0, plan.time)[version + 1]))
        jobs = jobs[(plan.begin[jobs] <= now) & (plan.start_version[jobs] <= version)]
        last = np.full(plan.clients, -1)
        last[plan.client[jobs]] = jobs  # of several the last
        return last

    def _last_own(self, version: int) -> Ints:
        """(n,) which update of each client was its last by a version; -1: none."""
        plan, last = self._plan, np.full(self._plan.clients, -1)
        begin, end = plan.offsets[[self._first, version + 1]].tolist()
        if self._own is not None:
            last[plan.client[begin:end]] = np.arange(end - begin)
        return last

    def saved(self, version: int, place: Ints) -> Held:
        """Who holds what at a version, with the place of each client's model in a snapshot."""
        plan, last = self._plan, self._last(version)
        before = self._held_before
        held, own, apart = before.version, before.own.copy(), before.apart.copy()
        held = np.where(last >= 0, plan.start_version[last], held)
        if self._own is not None:
            used = plan.client[slice(*plan.offsets[[self._first, version + 1]].tolist())]
            client, uses = np.unique(used, return_index=True)
            client = client[np.argsort(uses)]
            new = client[~own[client]]
            apart[new], own[new] = apart.max() + 1 + np.arange(len(new)), True
        return Held(place, held, own, apart)

    def waiting(self, version: int) -> tuple[Ints, Ints]:
        """Jobs that have begun by a version and are used later, if ever, and their start models."""
        plan = self._plan
        jobs = np.flatnonzero((plan.start_version <= version) & (plan.used_by > version))
        return jobs, self._starts[jobs]

    def _held(self, times: Floats, versions: Ints) -> Iterator[tuple[Ints, Ints]]:
        """What clients hold at each of these times, once these versions are made, and how many."""
        plan, clients, jobs = self._plan, self._plan.clients, self._begun
        when = np.searchsorted(latest(times), plan.begin[jobs])
        used = np.arange(int(plan.offsets[self._first]), plan.jobs)
        use = np.searchsorted(versions, plan.used_by[used])
        before, before_own = np.full(clients, -1), np.full(clients, -1)
        at_once = max(1, _AT_ONCE // clients)
        for begin in range(0, len(times), at_once):
            end = min(begin + at_once, len(times))
            rank = _latest_numbers(before, begin, end, when, plan.client[jobs])
            # The last of no jobs is not read.
            held = np.where(rank >= 0, np.append(self._starts[jobs], 0)[rank], self._given)
            held = np.where(self._given_own, self._given, held)
            if self._own is not None:
                own = _latest_numbers(before_own, begin, end, use, plan.client[used])
                held, before_own = np.where(own >= 0, self._own + own, held), own[-1]
            before = rank[-1]
            yield from _counted(held)


def _counted(held: Ints) -> Iterator[tuple[Ints, Ints]]:
    """The different numbers in each row, in order, and how often each is there."""
    ordered = np.sort(held, axis=1)
    new = np.ones(held.shape, np.bool_)
    new[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    place, ends = np.flatnonzero(new), np.cumsum(new.sum(axis=1))[:-1]
    counts = np.diff(np.append(place, held.size))
    return zip(np.split(ordered.ravel()[place], ends), np.split(counts, ends), strict=True)


def _latest_numbers(before: Ints, begin: int, end: int, when: Ints, client: Ints) -> Ints:
    """(times, n) the number of the last entry of each client by each time; -1: none.

    Args:
        before: (n,) the same before the first of these times.
        begin: the first of these times.
        end: the time after the last of them.
        when: (k,) the first time by which an entry counts.
        client: (k,) its client; entries of a client are in order.
    """
    numbers = np.full((end - begin, len(before)), -1)
    numbers[0] = before
    here: Mask = (when < end) & (when >= begin)
    place = np.flatnonzero(here)
    np.maximum.at(numbers, (when[place] - begin, client[place]), place)
    return np.maximum.accumulate(numbers, axis=0)
