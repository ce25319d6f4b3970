"""Who trained the model, as a result folder keeps it: `participation.json`.

The counts are those of the first seed's schedule. A schedule does not depend on the weights, so
they are exact, and small however many clients there are: of very many a sample is listed, while
the sums over each speed are over everybody.
"""

from __future__ import annotations

from typing import TypedDict

import numpy as np

from favano.experiments.standing import Standing, speed_classes
from favano.schedule import Schedule
from favano.timing import Fleet
from favano.types import Floats, Ints

_BINS = 60


class Speed(TypedDict):
    """All clients of one speed together."""

    name: str
    clients: int
    contacts: int
    steps: int
    weight: float


class Listed(TypedDict):
    """Clients one by one, a column each."""

    client: list[int]
    speed: list[int]
    contacts: list[int]
    steps: list[int]
    staleness: list[float]
    weight: list[float]


class Staleness(TypedDict):
    """How many jobs were used how late: bin b holds `width` values from `width * b` on."""

    width: int
    counts: list[list[int]]  # a list of bins a speed
    mean: float
    median: float
    most: int


class Participation(TypedDict):
    """The whole of `participation.json`."""

    seed: int
    clients: int
    speeds: list[Speed]
    listed: Listed
    staleness: Staleness


def participation(weights: Standing, schedule: Schedule, fleet: Fleet, seed: int) -> Participation:
    """Contacts, steps, staleness and effective weight of the clients, and of each speed."""
    names, speed = speed_classes(fleet)
    clients, shown = fleet.clients, weights.listed
    used = slice(0, schedule.jobs)
    client, steps, staleness = schedule.client[used], schedule.steps[used], schedule.staleness
    contacts = np.bincount(client, minlength=clients)
    made = np.bincount(client, steps, minlength=clients).astype(np.int64)
    late = np.bincount(client, staleness, minlength=clients) / np.maximum(contacts, 1)
    by_speed = weights.by(speed)
    return Participation(
        seed=seed,
        clients=clients,
        speeds=[
            Speed(
                name=name,
                clients=int((speed == number).sum()),
                contacts=int(contacts[speed == number].sum()),
                steps=int(made[speed == number].sum()),
                weight=float(by_speed[number]),
            )
            for number, name in enumerate(names)
        ],
        listed=Listed(
            client=shown.tolist(),
            speed=speed[shown].tolist(),
            contacts=contacts[shown].tolist(),
            steps=made[shown].tolist(),
            staleness=_rounded(late[shown]),
            weight=_rounded(weights.each),
        ),
        staleness=_histogram(staleness, speed[client], len(names)),
    )


def _histogram(staleness: Ints, speed: Ints, speeds: int) -> Staleness:
    most = int(staleness.max(initial=0))
    width = most // _BINS + 1
    bins = most // width + 1
    counts = [np.bincount(staleness[speed == s] // width, minlength=bins) for s in range(speeds)]
    jobs = len(staleness) > 0
    return Staleness(
        width=width,
        counts=[each.tolist() for each in counts],
        mean=float(staleness.mean()) if jobs else 0.0,
        median=float(np.median(staleness)) if jobs else 0.0,
        most=most,
    )


def _rounded(values: Floats) -> list[float]:
    """Six significant digits are enough to look at."""
    return [float(f"{value:.6g}") for value in values]
