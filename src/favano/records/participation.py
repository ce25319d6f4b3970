"""`participation.json`: who trained the model.

The counts are exact: they come from the schedule of the first seed, which does not depend on the
models. The file stays small: of very many clients only a sample is listed, while the sums per speed
are over all clients.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

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
class Participation:
    """The content of `participation.json`, about the run of one seed."""

    seed: int
    clients: int
    speeds: tuple[Speed, ...]
    listed: Listed
    staleness: Staleness

    def __post_init__(self) -> None:
        if any(not 0 <= speed < len(self.speeds) for speed in self.listed.speed):
            raise ValueError("a client has an unknown speed")


def participation_to_json(participation: Participation) -> str:
    """The text of `participation.json`."""
    return to_json(participation) + "\n"


participation_from_json = partial(from_json, Participation)
