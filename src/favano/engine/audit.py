"""Who trains the model: the weight of each client's local steps in the final server model.

Every local step of client i adds the i-th unit vector instead of a gradient. What the algorithm
makes of it is then exact for any method that is linear in the clients' progress.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from favano.algorithms.base import Algorithm, S
from favano.engine.replay import Replay, replayed
from favano.errors import need
from favano.schedule import Adaptive, Schedule
from favano.training import Layout, Work
from favano.types import Floats, Stack

_CLIENTS_AT_ONCE = 1000


@dataclass(frozen=True)
class _UnitSteps:
    """A trainer that counts: `rate` per step, in the coordinate of the client."""

    first: int
    size: int

    def train(self, start: Stack, work: Work) -> Stack:
        end = start.clone()
        place = work.client - self.first
        inside = np.flatnonzero((place >= 0) & (place < self.size))
        moved = torch.from_numpy((work.steps * work.rate)[inside])
        end[torch.from_numpy(inside), torch.from_numpy(place[inside])] += moved
        if work.drift is not None:
            end -= torch.from_numpy(work.steps * work.rate)[:, None] * work.drift
        return end


def effective_weights(algorithm: Algorithm[S], schedule: Schedule) -> Floats:
    """Share of each client in all that moved the server model, (n,); fair is 1/n for each."""
    rule = "its steps depend on the models, so that clients have no weights of their own"
    adaptive = isinstance(algorithm.policy, Adaptive)
    need(not adaptive, "algorithm", type(algorithm).__name__, rule)
    parts = []
    for first in range(0, schedule.clients, _CLIENTS_AT_ONCE):
        size = min(_CLIENTS_AT_ONCE, schedule.clients - first)
        initial = torch.zeros(size, dtype=torch.float64)
        layout = Layout(parameters=size, buffers=0, counters=0)
        replay = Replay(algorithm, schedule, layout, algorithm.rate(schedule.client), initial)
        *_, last = replayed(replay, _UnitSteps(first, size))
        parts.append(last.server.numpy())
    moved = np.concatenate(parts)
    total = moved.sum()
    return moved / total if total else moved
