"""Each client's share in the final server model.

In a small fleet every client has a weight of its own. In a large fleet only a sample of the clients
does; the others are weighed together by speed, so that sums over a speed include all clients.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from favano.engine.audit import PLAIN, LocalSteps, Weights, weigh
from favano.methods import AnyMethod
from favano.schedule import Schedule
from favano.timing import Fleet
from favano.types import Floats, Ints

MOST = 2000  # clients of a small fleet
SAMPLE = 500
_CLASSES = 6


@dataclass(frozen=True)
class ClientWeights:
    """Shares in the final server model; they sum to one (or zero, if nobody moved it)."""

    listed: Ints  # clients with a weight of their own, in order
    cell: Ints  # (n,) the cell of each client: listed clients have one each, others one per speed
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
        """Weights of groups: those of `fleet.groups` or of `speed_classes`."""
        of_cell = np.zeros(len(self.of_cells.final), dtype=np.int64)
        of_cell[self.cell] = group
        groups = int(group.max()) + 1
        late = np.array([np.bincount(of_cell, one, groups) for one in self.of_cells.late])
        return self.of_cells._replace(final=late[-1], late=late)


def weigh_clients(
    method: AnyMethod, schedule: Schedule, fleet: Fleet, local: LocalSteps = PLAIN, most: int = MOST
) -> ClientWeights:
    """Weigh the clients; the cost grows with the number of cells."""
    clients = fleet.clients
    listed = listed_clients(clients, most)
    _, speed = speed_classes(fleet)
    alike = clients + fleet.groups * (speed.max() + 1) + speed
    alike[listed] = listed
    _, cell = np.unique(alike, return_inverse=True)
    return ClientWeights(listed, cell, weigh(method, schedule, cell, local))


def listed_clients(clients: int, most: int = MOST) -> Ints:
    """All clients of a small fleet, an even sample of a large one."""
    if clients <= most:
        return np.arange(clients)
    return np.linspace(0, clients - 1, min(SAMPLE, most)).round().astype(np.int64)


def speed_classes(fleet: Fleet) -> tuple[list[str], Ints]:
    """Names of the speeds and the speed of each client; thirds if there are many speeds."""
    group = fleet.groups
    if group.max() < _CLASSES:
        return speed_names(fleet), group
    rank = np.argsort(np.argsort(fleet.mean, kind="stable"), kind="stable")
    return ["fastest third", "middle third", "slowest third"], 3 * rank // fleet.clients


def speed_names(fleet: Fleet) -> list[str]:
    """`fast` and `slow` for up to two speeds, numbered classes for more."""
    classes = int(fleet.groups.max()) + 1
    return ["fast", "slow"][:classes] if classes <= 2 else [f"class {k}" for k in range(classes)]
