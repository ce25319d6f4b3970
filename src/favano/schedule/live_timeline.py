"""A timeline of what happens, not planned: jobs and updates are noted as they happen."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from favano.schedule.schedule import Schedule, schedule_of
from favano.types import Floats, Ints

# What else is noted of a job: its step size, seconds of training, what was expected of its client
# by then, P(E > 0) and E[min(E, K)], its number among its client's jobs, whether the client began
# from the server's model as it is, which part of the data it had, or -1, and what its changes of
# parameters and of buffers were multiplied by, if they were too long.
NOTES = (
    "rate", "seconds", "positive", "mean", "message", "whole", "partition", "scale", "buffer_scale",
)  # fmt: skip
SCALES = ("scale", "buffer_scale")  # 1 unless noted otherwise

_JOB = np.dtype(
    [
        *(
            (name, np.int64)
            for name in ("client", "steps", "start_version", "used_by", "first_step")
        ),
        *((name, np.float64) for name in ("begin", "finish", "due", *NOTES)),
    ]
)
_ROOM = 1024  # jobs, at first
_OPEN = np.iinfo(np.int64).max  # the update of a job that no update has used


class LiveTimeline:
    """What has happened so far. Jobs are numbered in the order in which they are handed out.

    An update is known as soon as it is decided which answers it uses.
    """

    complete = False

    def __init__(self, clients: int, local_steps: int) -> None:
        self._clients, self._local_steps = clients, local_steps
        self._table = np.zeros(_ROOM, _JOB)
        self._count = 0
        self._at_hand: list[list[int]] = [[] for _ in range(clients)]  # open jobs of each client
        self._made = [0] * clients  # steps that each client has answered
        self._time: list[float] = []
        self._lost: list[int] = []  # steps dropped before each update
        self._arrays = np.empty(0), np.empty(0, np.int64)  # of these two, once per update
        self._dropped = 0  # since the last update
        self._used: list[list[int]] = []  # jobs of each update
        self._begun: list[list[int]] = [[]]  # jobs that are handed each version

    def begin(self, client: int, now: float) -> int:
        """A client is handed the newest version; returns the number of its job.

        A client that is at work begins when it has answered.
        """
        job, queue = self._count, self._at_hand[client]
        if job == len(self._table):
            self._table = np.concatenate([self._table, np.zeros_like(self._table)])
        begin = np.inf if queue else now
        first_step = self._made[client] + self._local_steps * len(queue)
        self._table[job] = (
            *(client, 0, self.updates - 1, _OPEN, first_step, begin, np.inf, np.inf),
            *(float(name in SCALES) for name in NOTES),
        )
        self._count += 1
        queue.append(job)
        self._begun[-1].append(job)
        return job

    def receive(self, job: int, steps: int, now: float) -> None:
        """A client has answered after so many steps."""
        self._table["steps"][job] = steps
        self._made[int(self._table["client"][job])] += steps
        self._end(job, now)

    def give_up(self, client: int, now: float) -> None:
        """The updates of a client are no longer waited for."""
        for job in list(self._at_hand[client]):
            self._end(job, now)

    def drop(self, job: int) -> None:
        """A client update is not used, nor by the newest update, if that was to use it."""
        if self._used and job in self._used[-1]:
            self._used[-1].remove(job)
            self._table["used_by"][job], self._table["due"][job] = _OPEN, np.inf
        self._dropped += int(self._table["steps"][job])

    def use(self, jobs: Sequence[int], now: float) -> None:
        """The next update is made of these client updates."""
        chosen = list(jobs)
        self._table["used_by"][chosen], self._table["due"][chosen] = self.updates, now
        self._used.append(chosen)
        self._time.append(now)
        self._lost.append(self._dropped)
        self._dropped = 0
        self._begun.append([])

    def note(self, jobs: Sequence[int], name: str, values: Floats | float) -> None:
        """Note something else of jobs, by one of the names in `NOTES`."""
        self._table[name][list(jobs)] = values

    def noted(self, name: str) -> Floats:
        """(J,) what was noted of each job, by number."""
        column: Floats = self._table[name][: self._count]
        return column

    @property
    def updates(self) -> int:
        """Number of updates so far."""
        return len(self._time)

    @property
    def known(self) -> Schedule:
        """All jobs, by number; valid until the next one begins."""
        return self._part(self._table[: self._count], check=False)

    @property
    def schedule(self) -> Schedule:
        """All updates and jobs, as a plan has them."""
        jobs = self._table[self.order]
        jobs["used_by"] = np.minimum(jobs["used_by"], self.updates)
        return self._part(jobs, check=True)

    @property
    def order(self) -> Ints:
        """(J,) numbers of the jobs in the order of the schedule."""
        used = [job for some in self._used for job in some]
        rest = np.flatnonzero(self._table["used_by"][: self._count] == _OPEN)
        return np.concatenate([np.array(used, dtype=np.int64), rest])

    @property
    def due(self) -> Floats:
        """(J,) when each job was used; infinity if it was not."""
        due: Floats = self._table["due"][: self._count]
        return due

    def time(self, update: int) -> float:
        """When an update was made."""
        return self._time[update]

    def jobs(self, update: int) -> Ints:
        """Numbers of the jobs that an update uses."""
        return np.asarray(self._used[update], dtype=np.int64)

    def begun(self, version: int) -> Ints:
        """Numbers of the jobs that are handed a version."""
        return np.asarray(self._begun[version + 1], dtype=np.int64)

    def extend(self, steps: Ints | None) -> None:
        """The newest update is made."""

    def _end(self, job: int, now: float) -> None:
        table = self._table
        queue = self._at_hand[int(table["client"][job])]
        if job in queue:  # else it was given up
            queue.remove(job)
            table["begin"][job], table["finish"][job] = min(table["begin"][job], now), now
            if queue:
                table["begin"][queue[0]] = min(table["begin"][queue[0]], now)

    def _part(self, jobs: npt.NDArray[np.void], *, check: bool) -> Schedule:
        if len(self._arrays[0]) != self.updates:
            self._arrays = np.array(self._time), np.array(self._lost, dtype=np.int64)
        time, lost = self._arrays
        return schedule_of(
            jobs,
            clients=self._clients,
            local_steps=self._local_steps,
            time=time,
            wasted_steps=lost,
            check=check,
        )
