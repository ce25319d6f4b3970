"""Who trains the model: the weight of each client's local steps in the server model.

Every local step of client i adds the i-th unit vector instead of a gradient. What the algorithm
makes of it is then exact for any method that is linear in the clients' progress: either all the way
to the final server model (`effective_weights`), or what the answers add to the server model in the
update that uses them (`answer_weights`), which is all of it for methods that add progress, and in
proportion to it for those that average models.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from favano.algorithms.base import Algorithm, S, Visit
from favano.engine.replay import Replay, replayed
from favano.schedule import Schedule
from favano.training import Layout, Work
from favano.types import Floats, Ints, Stack

_COLUMNS_AT_ONCE = 1000


@dataclass(frozen=True)
class _UnitSteps:
    """A trainer that counts: `rate` per step, in the coordinate of the client's group."""

    group: Ints  # (n,)
    first: int  # coordinate 0 is this group
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

    With `group`, (n,), the shares of groups of clients instead, at the cost of their number.
    """
    of = np.arange(schedule.clients) if group is None else group
    columns, parts = int(of.max()) + 1, []
    for first in range(0, columns, _COLUMNS_AT_ONCE):
        size = min(_COLUMNS_AT_ONCE, columns - first)
        initial = torch.zeros(size, dtype=torch.float64)
        layout = Layout(parameters=size, buffers=0, counters=0)
        replay = Replay(algorithm, schedule, layout, algorithm.rate(schedule.client), initial)
        *_, last = replayed(replay, _UnitSteps(of, first, size))
        parts.append(last.server.numpy())
    moved = np.concatenate(parts)
    total = moved.sum()
    return moved / total if total else moved


def answer_weights(algorithm: Algorithm[S], schedule: Schedule, group: Ints) -> Floats:
    """What the answers of each group of clients add to the server model at each update, (V, g).

    One update at a time, from a server model and start models of zero. The state goes on as if
    nobody had moved, so that the model stays zero and what else a method remembers (contacts seen,
    say) is as it would be.
    """
    columns = int(group.max()) + 1
    moved = np.zeros((schedule.updates, columns))
    far = torch.from_numpy(schedule.steps * algorithm.rate(schedule.client))
    offsets = schedule.offsets
    state = algorithm.init(torch.zeros(columns, dtype=torch.float64))
    for version in range(schedule.updates):
        jobs = np.arange(offsets[version], offsets[version + 1])
        if not len(jobs):
            continue
        client = schedule.client[jobs]
        start = torch.zeros(len(jobs), columns, dtype=torch.float64)
        end = start.clone()
        end[np.arange(len(jobs)), group[client]] = far[jobs]
        visit = Visit(client, schedule.steps[jobs], version - 1 - schedule.base[jobs])
        moved[version] = algorithm.update(state, visit, start, end).model.numpy()
        state = algorithm.update(state, visit, start, start)
    return moved
