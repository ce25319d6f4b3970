"""A schedule: all jobs of a run, with their start versions, steps and the updates that use them."""

from __future__ import annotations

from dataclasses import InitVar, dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from favano.errors import require
from favano.timing import FaultKind
from favano.timing.ties import latest
from favano.types import Floats, Ints


class FaultEvent(NamedTuple):
    """What a fault did to a client."""

    time: float
    client: int
    what: FaultKind
    job: int = -1  # row of the schedule; -1: it met no job


@dataclass(frozen=True)
class Schedule:
    """V server updates and J jobs, in the order of the updates that use them.

    Version v is the server model after update v, version -1 the initial one. A job of client
    `client[j]` starts from version `start_version[j]` (from the client's own model, for methods
    that let it keep one), makes `steps[j]` local steps and is used by update `used_by[j]`. Jobs
    that no update uses, dropped or still under way at the end, are last and have `used_by[j]` = V.
    """

    clients: int  # n
    local_steps: int | Ints  # K, the most steps of a job; (n,) where clients differ
    time: Floats  # (V,) when the update is made
    wasted_steps: Ints  # (V,) local steps made and dropped by then
    client: Ints  # (J,)
    steps: Ints  # (J,)
    start_version: Ints  # (J,)
    used_by: Ints  # (J,)
    first_step: Ints  # (J,) position in the client's batch stream
    begin: Floats  # (J,) when the client starts, infinity if it never does
    finish: Floats  # (J,) when the client answers or is stopped, infinity if neither

    # Of fleets that meet faults or go away; None: as the jobs themselves say.
    uploads: Ints | None = None  # (J,) how often the client update was sent
    scale: Floats | None = None  # (J,) what its client multiplied its delta by
    faults: tuple[FaultEvent, ...] = ()  # in the order of time

    check: InitVar[bool] = True  # False: part of a schedule, which is checked once it is whole

    def __post_init__(self, check: bool) -> None:
        object.__setattr__(self, "local_steps", one_if_equal(self.local_steps))
        if check:
            check_schedule(self)

    @property
    def updates(self) -> int:
        """Number of server updates V."""
        return len(self.time)

    @property
    def most_steps(self) -> Ints:
        """(J,) K of each job's client."""
        most = self.local_steps
        return np.full(len(self.client), most) if isinstance(most, int) else most[self.client]

    @property
    def jobs(self) -> int:
        """Number of jobs that an update uses."""
        return int(np.searchsorted(self.used_by, self.updates))

    @property
    def used_steps(self) -> int:
        """Number of local steps that the updates use."""
        return int(self.steps[: self.jobs].sum())

    @property
    def staleness(self) -> Ints:
        """Updates made between each used job's start version and its use."""
        return (self.used_by - 1 - self.start_version)[: self.jobs]

    @cached_property
    def offsets(self) -> Ints:
        """(V+1,) the jobs of update v are offsets[v]..offsets[v+1]."""
        return np.searchsorted(self.used_by, np.arange(self.updates + 1)).astype(np.int64)

    def versions_at(self, times: Floats) -> Ints:
        """Version of the server model that is valid at each time."""
        return np.searchsorted(self.time, latest(times), side="right").astype(np.int64) - 1


MET = ("uploads", "scale")
COLUMNS = tuple(field.name for field in fields(Schedule) if field.name not in (*MET, "faults"))


def one_if_equal(steps: int | Ints) -> int | Ints:
    """K of all clients, if it is the same."""
    if isinstance(steps, int):
        return steps
    return int(steps.flat[0]) if (steps == steps.flat[0]).all() else steps


def check_schedule(schedule: Schedule) -> None:
    """Raise unless the schedule could have happened."""
    s = schedule

    def check(name: str, holds: npt.NDArray[np.bool_], rule: str) -> None:
        require(bool(holds.all()), "schedule", name, rule)

    check("time", np.diff(s.time) >= 0, "updates must be in order of time")
    check("used_by", np.diff(s.used_by) >= 0, "jobs must be in update order")
    check("client", (s.client >= 0) & (s.client < s.clients), f"must be 0..{s.clients - 1}")
    one = isinstance(s.local_steps, int)
    rule = f"must be 0..{s.local_steps if one else 'K of the client'}"
    check("steps", (s.steps >= 0) & (s.steps <= s.most_steps), rule)
    causal = (s.start_version >= -1) & (s.start_version < s.used_by) & (s.used_by <= s.updates)
    check("start_version", causal, "a job must start before the update that uses it")
    check(
        "begin",
        s.begin >= np.append(0.0, s.time)[s.start_version + 1],
        "a job's start version must exist",
    )
    ordered = (s.finish >= s.begin) & (s.finish <= np.append(s.time, np.inf)[s.used_by])
    check("finish", ordered, "a job must end between its start and its use")
    order = np.lexsort((s.finish, s.first_step, s.begin, s.client))
    same = s.client[order[1:]] == s.client[order[:-1]]
    apart = s.begin[order[1:]] >= s.finish[order[:-1]]
    check("begin", apart[same], "a client has two jobs at once")


def save_schedule(schedule: Schedule, path: Path) -> None:
    """Write a schedule as a NumPy archive, without pickles."""
    arrays = {name: np.asarray(getattr(schedule, name)) for name in COLUMNS}
    arrays |= {name: values for name in MET if (values := getattr(schedule, name)) is not None}
    with path.open("wb") as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]
