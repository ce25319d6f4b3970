"""Each client's share in the final server model.

In a small fleet every client has a weight of its own. In a large fleet only a sample of the clients
does; the others are weighed together by speed and by how often they are there, so that sums over
these include all clients.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from favano.engine.audit import PLAIN, LocalSteps, Weights, weigh
from favano.methods import AnyMethod
from favano.schedule import Schedule
from favano.timing import ClientSpeeds
from favano.types import Floats, Ints

MOST = 2000  # clients of a small fleet
SAMPLE = 500
_THIRDS = ("fastest third", "middle third", "slowest third")
_TENTHS = (
    "fastest tenth",
    "2nd tenth",
    "3rd tenth",
    *(f"{k}th tenth" for k in range(4, 10)),
    "slowest tenth",
)
_LEAST_FIRST = (
    "least available tenth",
    "2nd least available tenth",
    "3rd least available tenth",
    *(f"{k}th least available tenth" for k in range(4, 10)),
    "most available tenth",
)
_SPEEDS_ON_A_PAGE = 6


@dataclass(frozen=True)
class ClientWeights:
    """Shares in the final server model; they sum to one (or zero, if nobody moved it)."""

    listed: Ints  # clients with a weight of their own, in order
    cell: Ints  # (n,) the cell of each client: listed clients have one each, others share them
    of_cells: Weights

    @property
    def each(self) -> Floats:
        """Weights of the listed clients."""
        return self.of_cells.final[self.cell[self.listed]]

    @property
    def complete(self) -> bool:
        """Whether every client is listed."""
        return len(self.listed) == len(self.cell)

    def by(self, group: Ints) -> Weights:
        """Weights of groups: of `speed_classes`, `speed_thirds` or `availability_classes`."""
        of_cell = np.zeros(len(self.of_cells.final), dtype=np.int64)
        of_cell[self.cell] = group
        groups = int(group.max()) + 1
        late = np.array([np.bincount(of_cell, weights, groups) for weights in self.of_cells.late])
        return self.of_cells._replace(final=late[-1], late=late)


def weigh_clients(
    method: AnyMethod,
    schedule: Schedule,
    fleet: ClientSpeeds,
    local: LocalSteps = PLAIN,
    most: int = MOST,
) -> ClientWeights:
    """Weigh the clients; the cost grows with the number of cells."""
    clients = fleet.clients
    listed = listed_clients(clients, most)
    (_, speed), (_, third) = speed_classes(fleet), speed_thirds(fleet)
    (_, there) = availability_classes(fleet)
    alike = clients + (there * (speed.max() + 1) + speed) * (third.max() + 1) + third
    alike[listed] = listed
    _, cell = np.unique(alike, return_inverse=True)
    with np.errstate(over="ignore", invalid="ignore"):  # models that grow have no shares
        return ClientWeights(listed, cell, weigh(method, schedule, cell, local))


def listed_clients(clients: int, most: int = MOST) -> Ints:
    """All clients of a small fleet, an even sample of a large one."""
    if clients <= most:
        return np.arange(clients)
    return np.linspace(0, clients - 1, min(SAMPLE, most)).round().astype(np.int64)


def speed_classes(fleet: ClientSpeeds) -> tuple[list[str], Ints]:
    """Names of the speeds and the speed of each client; tenths if there are more than ten."""
    return _classes(fleet, len(_TENTHS), _TENTHS)


def speed_thirds(fleet: ClientSpeeds) -> tuple[list[str], Ints]:
    """The same for figures, which have room for six speeds, or else for three."""
    return _classes(fleet, _SPEEDS_ON_A_PAGE, _THIRDS)


def availability_classes(fleet: ClientSpeeds) -> tuple[list[str], Ints]:
    """Names and numbers of clients that are there as often, the least available first.

    Clients whose shares of the time are equal to a tenth of a percent are one class; more than ten
    classes are tenths of the clients. No names: all are always there.
    """
    presence = fleet.conditions.presence
    if presence is None:
        return [], np.zeros(fleet.clients, dtype=np.int64)
    share = presence.share(presence.horizon)
    level, group = np.unique(share.round(3), return_inverse=True)
    if len(level) <= len(_LEAST_FIRST):
        return [f"{100 * each:.3g} % available" for each in level.tolist()], group.ravel()
    rank = np.argsort(np.argsort(share, kind="stable"), kind="stable")
    return list(_LEAST_FIRST), len(_LEAST_FIRST) * rank // fleet.clients


def _classes(fleet: ClientSpeeds, most: int, parts: Sequence[str]) -> tuple[list[str], Ints]:
    """Clients by speed; by rank in equal parts if there are more than `most` speeds."""
    group = fleet.groups
    if group.max() < most:
        return speed_names(int(group.max()) + 1), group
    rank = np.argsort(np.argsort(fleet.mean, kind="stable"), kind="stable")
    return list(parts), len(parts) * rank // fleet.clients


def speed_names(classes: int) -> list[str]:
    """`fast` and `slow` for up to two classes, numbered ones for more."""
    return ["fast", "slow"][:classes] if classes <= 2 else [f"class {k}" for k in range(classes)]
