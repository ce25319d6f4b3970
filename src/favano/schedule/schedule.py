"""A schedule: who worked from which server version, for how many steps, and when it was used."""

from __future__ import annotations

from dataclasses import InitVar, dataclass, fields
from pathlib import Path

import numpy as np

from favano.errors import need
from favano.types import Floats, Ints


@dataclass(frozen=True)
class Schedule:
    """V server updates and J jobs, in the order of the updates that consume them.

    Version v is the server model after update v, version -1 the initial one. A job of client
    `client[j]` starts from version `base[j]` (from the client's own model, for methods that let it
    keep one), makes `steps[j]` local steps and is consumed by update `visit[j]`. Work that no
    update ever used, thrown away or still under way at the end, stands last with `visit[j]` = V.
    """

    clients: int  # n
    local_steps: int  # K, the most steps a job may make
    time: Floats  # (V,) when the model of the update is valid
    lost: Ints  # (V,) local steps made and thrown away by then
    client: Ints  # (J,)
    steps: Ints  # (J,)
    base: Ints  # (J,)
    visit: Ints  # (J,)
    first_step: Ints  # (J,) position in the client's batch stream
    begin: Floats  # (J,) the client starts to compute, infinity if it never did
    finish: Floats  # (J,) the client hands in what it has or is stopped, infinity if neither

    check: InitVar[bool] = True  # False: a part of a schedule that is checked once it is whole

    def __post_init__(self, check: bool) -> None:
        if check:
            check_schedule(self)

    @property
    def updates(self) -> int:
        """Number of server updates V."""
        return len(self.time)

    @property
    def jobs(self) -> int:
        """Number of jobs whose work an update used."""
        return int(np.searchsorted(self.visit, self.updates))

    @property
    def used_steps(self) -> int:
        """Local steps that went into an update, in all."""
        return int(self.steps[: self.jobs].sum())

    @property
    def staleness(self) -> Ints:
        """Server updates made between a used job's start model and its use."""
        return (self.visit - 1 - self.base)[: self.jobs]

    @property
    def offsets(self) -> Ints:
        """(V+1,) the jobs of update v are offsets[v]..offsets[v+1]."""
        return np.searchsorted(self.visit, np.arange(self.updates + 1)).astype(np.int64)

    def versions_at(self, times: Floats) -> Ints:
        """Version of the server model that is valid at each time."""
        return np.searchsorted(self.time, times, side="right").astype(np.int64) - 1


def check_schedule(schedule: Schedule) -> None:
    """Raise unless the schedule could have happened."""
    s = schedule
    need(bool((np.diff(s.time) >= 0).all()), "schedule", "time", "updates must be in order of time")
    need(bool((np.diff(s.visit) >= 0).all()), "schedule", "visit", "jobs must be in update order")
    in_range = (s.client >= 0) & (s.client < s.clients)
    need(bool(in_range.all()), "schedule", "client", f"must be 0..{s.clients - 1}")
    in_range = (s.steps >= 0) & (s.steps <= s.local_steps)
    need(bool(in_range.all()), "schedule", "steps", f"must be 0..{s.local_steps}")
    causal = (s.base >= -1) & (s.base < s.visit) & (s.visit <= s.updates)
    need(bool(causal.all()), "schedule", "base", "a job must start before the update that uses it")
    existed = np.concatenate([[0.0], s.time])[s.base + 1]
    need(bool((s.begin >= existed).all()), "schedule", "begin", "a job's base must exist")
    ordered = (s.finish >= s.begin) & (s.finish <= np.append(s.time, np.inf)[s.visit])
    need(bool(ordered.all()), "schedule", "finish", "a job must end between its start and its use")
    order = np.lexsort((s.first_step, s.begin, s.client))
    same = s.client[order[1:]] == s.client[order[:-1]]
    apart = s.begin[order[1:]] >= s.finish[order[:-1]]
    need(bool(apart[same].all()), "schedule", "begin", "a client has two jobs at once")


def save_schedule(schedule: Schedule, path: Path) -> None:
    """Write a schedule as a NumPy archive, without pickles."""
    arrays = {field.name: np.asarray(getattr(schedule, field.name)) for field in fields(Schedule)}
    with path.open("wb") as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]


def load_schedule(path: Path) -> Schedule:
    """Read a schedule back; its invariants are checked again."""
    with np.load(path, allow_pickle=False) as archive:
        missing = [field.name for field in fields(Schedule) if field.name not in archive]
        need(not missing, "schedule", path, f"lacks the arrays {missing}")
        return Schedule(
            clients=int(archive["clients"]),
            local_steps=int(archive["local_steps"]),
            time=archive["time"],
            lost=archive["lost"],
            client=archive["client"],
            steps=archive["steps"],
            base=archive["base"],
            visit=archive["visit"],
            first_step=archive["first_step"],
            begin=archive["begin"],
            finish=archive["finish"],
        )
