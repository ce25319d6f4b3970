"""`participation.json`: who trained the model.

The counts are exact: they come from the schedule of the first seed, which does not depend on the
models. The file stays small: of very many clients only a sample is listed, while the sums per speed
are over all clients. What plots show of availability and of jobs is a sample, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Final

from favano.records.document import Number, from_json, omitted, to_json


@dataclass(frozen=True)
class Speed:
    """All clients of one speed together."""

    name: str
    clients: int
    contacts: int  # jobs used by the server
    steps: int  # local steps in them
    weight: Number  # share in the final server model
    fair: Number | None = omitted(None)  # noqa: RUF009 - its share of samples, where these count


@dataclass(frozen=True)
class Listed:
    """Individual clients: columns with one entry per client."""

    client: tuple[int, ...]
    speed: tuple[int, ...]  # index in `Participation.speeds`
    contacts: tuple[int, ...]
    steps: tuple[int, ...]
    staleness: tuple[float, ...]  # mean over the client's jobs, in server steps
    weight: tuple[Number, ...]  # share in the final server model
    fair: tuple[Number, ...] = omitted(())  # share of all samples, where these count

    def __post_init__(self) -> None:
        columns = (self.speed, self.contacts, self.steps, self.staleness, self.weight)
        lengths = {len(column) for column in columns} | ({len(self.fair)} if self.fair else set())
        if lengths - {len(self.client)}:
            raise ValueError("the columns of clients differ in length")


@dataclass(frozen=True)
class Staleness:
    """Jobs by staleness: bin b counts those of the `width` values from `width * b` on."""

    width: int
    counts: tuple[tuple[int, ...], ...]  # one row of bins per speed
    mean: float
    median: float
    most: int


@dataclass(frozen=True)
class AvailabilityChart:
    """When clients are there, in equal parts of the time up to the horizon."""

    horizon: float  # simulated, in units of time
    share: tuple[float, ...]  # of all clients, the mean over each part
    mean: float  # share of the time in which a client is there, over all clients
    median: float
    client: tuple[int, ...]  # some of them, from the most available one on
    available: tuple[float, ...]  # share of the time in which each of these is there
    digits: tuple[str, ...]  # of each a digit for every part: 0 away, 9 there, between: partly

    def __post_init__(self) -> None:
        if not len(self.client) == len(self.available) == len(self.digits):
            raise ValueError("the columns of available clients differ in length")
        if any(len(row) != len(self.share) or not row.isdecimal() for row in self.digits):
            raise ValueError("a client's availability is not a digit for every part of the time")


OUTCOMES: Final = ("used", "not used", "lost", "under way")


@dataclass(frozen=True)
class JobChart:
    """Jobs of some clients in a window of time, and the server steps in it.

    The columns of jobs have one entry per job.
    """

    begin: float  # of the window
    end: float
    horizon: float
    at_work: int  # clients with jobs
    client: tuple[int, ...]  # some of them, fast ones first
    speed: tuple[int, ...]  # of each, index in `Participation.speeds`
    row: tuple[int, ...]  # index in `client`
    start: tuple[float, ...]
    finish: tuple[float, ...]  # the end of the window at the latest
    steps: tuple[int, ...]
    outcome: tuple[int, ...]  # index in `OUTCOMES`
    used_by: tuple[int, ...]  # number of the server step, from 1 on; 0: none
    server_steps: tuple[float, ...]  # their times, an even sample if there are many
    server_steps_made: int  # in the window

    def __post_init__(self) -> None:
        columns = (self.start, self.finish, self.steps, self.outcome, self.used_by)
        whole = len(self.client) == len(self.speed)
        if not whole or any(len(column) != len(self.row) for column in columns):
            raise ValueError("the columns of jobs differ in length")
        if any(not 0 <= row < len(self.client) for row in self.row):
            raise ValueError("a job has an unknown client")
        if any(not 0 <= outcome < len(OUTCOMES) for outcome in self.outcome):
            raise ValueError("a job has an unknown outcome")


@dataclass(frozen=True)
class Participation:
    """The content of `participation.json`, about the run of one seed."""

    seed: int
    clients: int
    speeds: tuple[Speed, ...]
    listed: Listed
    staleness: Staleness
    availability: AvailabilityChart | None = omitted(None)  # noqa: RUF009 - None: all are always there
    jobs: JobChart | None = omitted(None)  # noqa: RUF009 - None: there are none, or the file is older

    def __post_init__(self) -> None:
        shown = (*self.listed.speed, *(self.jobs.speed if self.jobs else ()))
        if any(not 0 <= speed < len(self.speeds) for speed in shown):
            raise ValueError("a client has an unknown speed")


def participation_to_json(participation: Participation) -> str:
    """The text of `participation.json`."""
    return to_json(participation) + "\n"


participation_from_json = partial(from_json, Participation)
