"""What `participation.json` says: contacts, steps, staleness and weight of the clients."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import TypeAdapter

from favano.report.summary import Number


@dataclass(frozen=True)
class Speed:
    """All clients of one speed together; `weight` is their share in the final model."""

    name: str
    clients: int
    contacts: int
    steps: int
    weight: Number


@dataclass(frozen=True)
class Listed:
    """Clients one by one, a column each; a sample where there are very many."""

    client: tuple[int, ...]
    speed: tuple[int, ...]
    contacts: tuple[int, ...]
    steps: tuple[int, ...]
    staleness: tuple[float, ...]
    weight: tuple[Number, ...]

    def __post_init__(self) -> None:
        columns = (self.speed, self.contacts, self.steps, self.staleness, self.weight)
        if any(len(column) != len(self.client) for column in columns):
            raise ValueError("columns of clients are not equally long")


@dataclass(frozen=True)
class Staleness:
    """Jobs by how late they were used: bin b holds `width` values from `width * b` on."""

    width: int
    counts: tuple[tuple[int, ...], ...]  # a row of bins a speed
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


def read_participation(text: str) -> Participation:
    """Parse `participation.json`; a `ValueError` where it is not one."""
    return TypeAdapter(Participation).validate_json(text)
