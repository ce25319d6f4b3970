"""`participation.json`: who trained the model.

The counts are those of the first seed's schedule. A schedule does not depend on the weights, so
they are exact, and small however many clients there are: of very many a sample is listed, while
the sums over each speed are over all clients.
"""

from __future__ import annotations

from dataclasses import dataclass

from favano.records.document import Number, from_json, to_json


@dataclass(frozen=True)
class Speed:
    """All clients of one speed together."""

    name: str
    clients: int
    contacts: int  # jobs that the server used
    steps: int  # local steps in them
    weight: Number  # share in the final server model


@dataclass(frozen=True)
class Listed:
    """Single clients, one entry per client in every column."""

    client: tuple[int, ...]
    speed: tuple[int, ...]  # its place in `Participation.speeds`
    contacts: tuple[int, ...]
    steps: tuple[int, ...]
    staleness: tuple[float, ...]  # mean over the client's jobs, in server steps
    weight: tuple[Number, ...]  # share in the final server model

    def __post_init__(self) -> None:
        columns = (self.speed, self.contacts, self.steps, self.staleness, self.weight)
        if any(len(column) != len(self.client) for column in columns):
            raise ValueError("columns of clients are not equally long")


@dataclass(frozen=True)
class Staleness:
    """Jobs by how many server steps late they were used.

    Bin b holds `width` values from `width * b` on.
    """

    width: int
    counts: tuple[tuple[int, ...], ...]  # one row of bins per speed
    mean: float
    median: float
    most: int


@dataclass(frozen=True)
class Participation:
    """The whole of `participation.json`, about the run of one seed."""

    seed: int
    clients: int
    speeds: tuple[Speed, ...]
    listed: Listed
    staleness: Staleness

    def __post_init__(self) -> None:
        if any(not 0 <= speed < len(self.speeds) for speed in self.listed.speed):
            raise ValueError("a client has a speed that is not there")


def participation_to_json(participation: Participation) -> str:
    """The text of `participation.json`."""
    return to_json(participation) + "\n"


def participation_from_json(text: str) -> Participation:
    """The inverse of `participation_to_json`; a `ValueError` where the file is damaged."""
    return from_json(Participation, text)
