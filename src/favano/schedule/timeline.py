"""The timeline of a run: jobs and server steps, known from the start or noted as they happen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from favano.schedule.schedule import FaultEvent, Schedule, one_if_equal
from favano.types import Floats, Ints

# What a federation also notes of a job: its step size, seconds of training, what was expected of
# its client by then, P(E > 0) and E[min(E, K)], its number among its client's jobs, whether the
# client began from the server's model as it is, which part of the data it had, or -1, and what its
# changes of parameters and of buffers were multiplied by, if they were too long.
NOTES = (
    "rate", "seconds", "positive", "mean", "message", "whole", "partition", "scale", "buffer_scale",
)  # fmt: skip
SCALES = ("scale", "buffer_scale")  # 1 unless noted otherwise
ENCOUNTERED = ("uploads", "scale")  # noted where clients meet more than their speed

_INTS = ("client", "steps", "start_version", "used_by", "first_step")
_FLOATS = ("begin", "finish", "due")
_ROOM = 1024  # rows, at first
_OPEN = np.iinfo(np.int64).max  # the server step of a job that none has used

A = TypeVar("A", Floats, Ints)


class Timeline:
    """Jobs and server steps as far as they are known, of a plan, a simulation or a federation.

    A complete one is a schedule that is known from the start; the numbers of its jobs are rows of
    it. Others grow: their jobs are numbered in the order of dispatch, and a server step is known as
    soon as it is decided which client updates it uses. Numbers never change.

    Args:
        clients: n.
        local_steps: the most of a job; (n,) where clients differ.
        notes: names of what else is noted of jobs, of `NOTES`.
    """

    def __init__(self, clients: int, local_steps: int | Ints, notes: Sequence[str] = ()) -> None:
        self._clients, self._local_steps = clients, one_if_equal(local_steps)
        self.complete = self.ended = False  # ended: there will be no further server step
        self._planned: Schedule | None = None
        self._ints: dict[str, Ints] = {name: np.zeros(_ROOM, np.int64) for name in _INTS}
        self._floats: dict[str, Floats] = {name: np.zeros(_ROOM) for name in (*_FLOATS, *notes)}
        # What happens is noted in lists, and gets into the columns when somebody looks at them.
        self._new: list[tuple[int, int, int, int, float, float]] = []
        self._changes: dict[str, tuple[list[int], list[float]]] = {}
        self._time, self._wasted_before = np.zeros(_ROOM), np.zeros(_ROOM, np.int64)
        self._count = self.updates = 0  # jobs, and server steps
        self.dropped: list[int] = []  # jobs whose updates will not be used
        self._wasted = 0  # local steps since the last server step
        self._use_order: list[int] | Ints = []
        self._ends = [0]  # of the server steps' jobs, in this order
        self.faults: tuple[FaultEvent, ...] = ()  # of jobs by their numbers
        self._rest: Sequence[int] | None = None  # unused jobs in the order of the schedule
        self._begin_order: Ints | None = None  # None: that of the numbers
        self._firsts = [0]  # of the jobs from each version, in this order
        self._at_hand: dict[int, list[int]] = {}  # open jobs of each client
        self._made: dict[int, int] = {}  # steps that each client has answered

    @classmethod
    def of(cls, schedule: Schedule) -> Timeline:
        """The timeline of a schedule that is known from the start."""
        whole = cls(schedule.clients, schedule.local_steps)
        whole.complete = whole.ended = True
        whole._planned, whole.updates = schedule, schedule.updates
        whole._count = len(schedule.client)
        whole._floats["due"] = np.append(schedule.time, np.inf)[schedule.used_by]
        whole._time = schedule.time
        whole._use_order, whole._ends = np.arange(schedule.jobs), schedule.offsets.tolist()
        whole._begin_order = order = np.argsort(schedule.start_version, kind="stable")
        versions = np.arange(-1, schedule.updates + 1)
        whole._firsts = np.searchsorted(schedule.start_version[order], versions).tolist()
        return whole

    @property
    def known(self) -> Schedule:
        """All known jobs, by number; valid until something happens."""
        return self._planned or self._schedule(slice(self._count), check=False)

    @property
    def schedule(self) -> Schedule:
        """The same with the jobs in the order of a schedule, checked."""
        return self._planned or self._schedule(self.order)

    @property
    def order(self) -> Ints:
        """(J,) numbers of the jobs in the order of the schedule: those that are used first."""
        rest = self._rest
        if rest is None:
            rest = np.flatnonzero(self.ints["used_by"][: self._count] == _OPEN).tolist()
        return np.array([*self._use_order, *rest], dtype=np.int64)

    @property
    def due(self) -> Floats:
        """(J,) when the update of a job arrives or is used; infinity: never, as far as is known."""
        return self.floats["due"][: self._count]

    def time(self, update: int) -> float:
        """When a server step is made; it must be known."""
        return float(self._time[update])

    def jobs(self, update: int) -> Ints:
        """Numbers of the jobs that a server step uses; it must be known."""
        return np.asarray(self._use_order[slice(*self._ends[update : update + 2])], np.int64)

    def begun(self, version: int) -> Ints:
        """Numbers of the jobs that begin from a version, as far as they are known."""
        first, *more = self._firsts[version + 1 : version + 3]
        last = more[0] if more else self._count
        order = self._begin_order
        return np.arange(first, last) if order is None else order[first:last]

    def add(
        self, client: int, steps: int, first_step: int, begin: float, due: float = np.inf
    ) -> int:
        """A job is dispatched from the newest version; returns its number."""
        self._new.append((client, steps, self.updates - 1, first_step, begin, due))
        self._count += 1
        return self._count - 1

    def set(self, name: str, jobs: Sequence[int], value: float) -> None:
        """Change what is known of jobs."""
        changed, values = self._changes.setdefault(name, ([], []))
        changed += jobs
        values += [value] * len(jobs)

    @property
    def ints(self) -> dict[str, Ints]:
        """Columns of whole numbers by name, as far as there are jobs."""
        self._write()
        return self._ints

    @property
    def floats(self) -> dict[str, Floats]:
        """Columns of other numbers by name."""
        self._write()
        return self._floats

    def _write(self) -> None:
        """Put what has happened into the columns."""
        if self._new:
            new, self._new = self._new, []
            while self._count > len(self._ints["client"]):
                self._ints = {name: _longer(values) for name, values in self._ints.items()}
                self._floats = {name: _longer(values) for name, values in self._floats.items()}
            rows = slice(self._count - len(new), self._count)
            client, steps, start_version, first_step, begin, due = zip(*new, strict=True)
            ints = {"client": client, "steps": steps, "start_version": start_version}
            for name, column in {**ints, "first_step": first_step}.items():
                self._ints[name][rows] = column
            self._ints["used_by"][rows] = _OPEN
            self._floats["begin"][rows], self._floats["due"][rows] = begin, due
            self._floats["finish"][rows] = np.inf
            for name in self._floats.keys() & set(SCALES):
                self._floats[name][rows] = 1.0
        if self._changes:
            changes, self._changes = self._changes, {}
            for name, (jobs, values) in changes.items():
                (self._ints if name in self._ints else self._floats)[name][jobs] = values

    def use(self, jobs: Sequence[int], now: float) -> None:
        """The next server step is made of these client updates."""
        self.set("used_by", jobs, self.updates)
        self.set("due", jobs, now)
        if self.updates == len(self._time):
            self._time, self._wasted_before = _longer(self._time), _longer(self._wasted_before)
        self._time[self.updates], self._wasted_before[self.updates] = now, self._wasted
        self._wasted, self.updates = 0, self.updates + 1
        assert isinstance(self._use_order, list)  # that of a schedule does not grow
        self._use_order += jobs
        self._ends.append(len(self._use_order))
        self._firsts.append(self._count)

    def drop(self, job: int) -> None:
        """A client update is not used, nor by the newest server step, if that was to use it."""
        if self.ints["used_by"][job] != _OPEN:
            assert isinstance(self._use_order, list)
            self._use_order.remove(job)
            self._ends[-1] -= 1
            self.ints["used_by"][job] = _OPEN
        self.floats["due"][job] = np.inf
        self.dropped.append(job)
        self._wasted += int(self.ints["steps"][job])

    def end(self, rest: Sequence[int]) -> None:
        """There is nothing more; in the schedule, unused jobs are in this order."""
        self.ended, self._rest = True, rest

    def begin(self, client: int, now: float) -> int:
        """A client of a federation is sent the newest version; returns the number of its job.

        A client that is at work begins when it has answered.
        """
        queue = self._at_hand.setdefault(client, [])
        most = (
            self._local_steps if isinstance(self._local_steps, int) else self._local_steps[client]
        )
        first_step = self._made.get(client, 0) + int(most) * len(queue)
        job = self.add(client, 0, first_step, np.inf if queue else now)
        queue.append(job)
        return job

    def receive(self, job: int, steps: int, now: float) -> None:
        """A client has answered after so many steps."""
        client = int(self.ints["client"][job])
        self.ints["steps"][job] = steps
        self._made[client] = self._made.get(client, 0) + steps
        self._end(client, job, now)

    def give_up(self, client: int, now: float) -> None:
        """The updates of a client are no longer waited for."""
        for job in list(self._at_hand.get(client, ())):
            self._end(client, job, now)

    def note(self, jobs: Sequence[int], name: str, values: Floats | float) -> None:
        """Note something else of jobs, by one of its names."""
        self.floats[name][list(jobs)] = values

    def noted(self, name: str) -> Floats:
        """(J,) what was noted of each job, by number."""
        return self.floats[name][: self._count]

    def _end(self, client: int, job: int, now: float) -> None:
        begin, finish = self.floats["begin"], self.floats["finish"]
        queue = self._at_hand.get(client, [])
        if job in queue:  # else it was given up
            queue.remove(job)
            begin[job], finish[job] = min(begin[job], now), now
            if queue:
                begin[queue[0]] = min(begin[queue[0]], now)

    def _schedule(self, rows: slice | Ints, *, check: bool = True) -> Schedule:
        used_by = self.ints["used_by"][rows]
        uploads = scale = None
        if "uploads" in self.floats:
            uploads, scale = (
                self.floats["uploads"][rows].astype(np.int64),
                self.floats["scale"][rows],
            )
            scale = None if (scale == 1).all() else scale
        return Schedule(
            clients=self._clients,
            local_steps=self._local_steps,
            time=self._time[: self.updates],
            wasted_steps=self._wasted_before[: self.updates],
            client=self.ints["client"][rows],
            steps=self.ints["steps"][rows],
            start_version=self.ints["start_version"][rows],
            used_by=np.minimum(used_by, self.updates) if check else used_by,
            first_step=self.ints["first_step"][rows],
            begin=self.floats["begin"][rows],
            finish=self.floats["finish"][rows],
            uploads=uploads,
            scale=scale,
            faults=_in_rows(self.faults, rows) if self.faults else (),
            check=check,
        )


def _in_rows(faults: Sequence[FaultEvent], rows: slice | Ints) -> tuple[FaultEvent, ...]:
    """The faults, with the places that their jobs have in the schedule."""
    if isinstance(rows, slice):
        return tuple(faults)
    place = {number: row for row, number in enumerate(rows.tolist())}
    return tuple(fault._replace(job=place.get(fault.job, -1)) for fault in faults)


def _longer(values: A) -> A:
    return np.concatenate([values, np.zeros_like(values)])
