"""The jobs of all open runs as one table of arrays."""

from __future__ import annotations

import numpy as np

from favano.aggregation.aggregator import NO_INDICES, Aggregator
from favano.methods import State
from favano.schedule import Schedule
from favano.types import Floats, Ints, Mask

_FIRST_ROOM = 1024


class JobTable:
    """Everything about jobs that are numbered across runs, in the order in which they are added.

    The first columns are set when a job is added, the others while it is in progress.
    """

    run: Ints
    client: Ints  # numbered across runs
    client_in_run: Ints  # its number within the run
    steps: Ints
    first_step: Ints
    start_version: Ints  # start version
    begin: Floats
    rate: Floats
    due: Floats  # when the update that uses it is made; infinity if none does
    update: Ints  # that uses it; -1 until it is known
    unfinished: Mask  # whether its start model is kept, though no known update uses it
    loss: Floats  # of its training, if that is measured
    start: Ints  # row of its start model; -1: none
    end: Ints  # row of its end model; -1: none
    finite: Mask  # whether the end model has neither NaN nor infinity

    def __init__(self, runs: int) -> None:
        self._count, self._room = 0, _FIRST_ROOM
        for name, kind in JobTable.__annotations__.items():
            dtype = {"Ints": np.int64, "Floats": np.float64, "Mask": np.bool_}[kind]
            setattr(self, name, np.empty(self._room, dtype=dtype))
        self._numbers: list[Ints] = [NO_INDICES] * runs  # of each run's jobs
        self._updates = [0] * runs  # of each run whose jobs are known here

    def add(self, number: int, run: Aggregator[State], first_client: int) -> None:
        """Add the jobs of a run that are known by now and not in the table yet."""
        known, before = run.timeline.known, len(self._numbers[number])
        new = len(known.client) - before
        self._reserve(new)
        place = slice(self._count, self._count + new)
        self.client_in_run[place] = known.client[before:]
        self.client[place] = first_client + known.client[before:]
        for name in ("steps", "first_step", "start_version", "begin"):
            getattr(self, name)[place] = getattr(known, name)[before:]
        self.run[place], self.rate[place] = number, run.rates[before:]
        self.due[place] = run.timeline.due[before:]
        self.update[place] = known.used_by[before:] if run.timeline.complete else -1
        # Only a longer run would use what is under way at the horizon.
        self.unfinished[place] = _unfinished(known) if run.timeline.complete else True
        self.start[place] = self.end[place] = -1
        self.finite[place], self.loss[place] = True, np.nan
        added = np.arange(self._count, self._count + new)
        self._numbers[number] = np.append(self._numbers[number], added)
        self._count += new
        if not run.timeline.complete:
            for update in range(self._updates[number], known.updates):
                self.update[self._numbers[number][run.timeline.jobs(update)]] = update
            self._updates[number] = known.updates

    def of(self, run: int) -> Ints:
        """(J,) numbers in the table of a run's jobs."""
        return self._numbers[run]

    def forget(self, run: int) -> None:
        """Drop the numbers of a run that has ended."""
        self._numbers[run] = NO_INDICES

    def _reserve(self, rows: int) -> None:
        """Provide room for so many more jobs."""
        if self._count + rows > self._room:
            self._room = max(2 * self._room, self._count + rows)
            for name in JobTable.__annotations__:
                setattr(self, name, np.resize(getattr(self, name), self._room))


def _unfinished(schedule: Schedule) -> Mask:
    """Jobs that no server step uses, and that end after the last one which is used."""
    last = schedule.finish[: schedule.jobs].max(initial=-np.inf)
    return np.asarray((schedule.used_by == schedule.updates) & (schedule.finish >= last), np.bool_)
