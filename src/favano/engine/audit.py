"""Who trains the model: the weight of each client's local steps in the final server model.

Every local step of client i adds the i-th unit vector instead of a gradient. What the algorithm
makes of it is then exact for any method, since all of them are linear in the clients' progress.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from favano.algorithms.base import Algorithm, S
from favano.engine.replay import Replay, replayed
from favano.schedule import Schedule
from favano.training import Layout, Work
from favano.types import Floats, Ints, Stack

_GROUPS_AT_ONCE = 1000


@dataclass(frozen=True)
class _UnitSteps:
    """A trainer that counts: `rate` per step, in the coordinate of the client's group."""

    group: Ints  # (n,)
    first: int
    size: int

    def train(self, start: Stack, work: Work) -> Stack:
        end = start.clone()
        place = self.group[work.client] - self.first
        inside = np.flatnonzero((place >= 0) & (place < self.size))
        moved = torch.from_numpy((work.steps * work.rate)[inside])
        end[torch.from_numpy(inside), torch.from_numpy(place[inside])] += moved
        return end


def effective_weights(
    algorithm: Algorithm[S], schedule: Schedule, group: Ints | None = None
) -> Floats:
    """Share of each client in all that moved the server model, (n,); fair is 1/n for each.

    `group`, (n,), numbers the clients from 0; clients of one number are then counted together and
    the answer has one share a number. A replay costs as much as there are numbers.
    """
    numbers = np.arange(schedule.clients) if group is None else group
    count = int(numbers.max()) + 1
    shares = []
    for first in range(0, count, _GROUPS_AT_ONCE):
        size = min(_GROUPS_AT_ONCE, count - first)
        initial = torch.zeros(size, dtype=torch.float64)
        layout = Layout(parameters=size, buffers=0, counters=0)
        replay = Replay(algorithm, schedule, layout, algorithm.rate(schedule.client), initial)
        *_, last = replayed(replay, _UnitSteps(numbers, first, size))
        shares.append(last.server.numpy())
    moved = np.concatenate(shares)
    total = moved.sum()
    return moved / total if total else moved
