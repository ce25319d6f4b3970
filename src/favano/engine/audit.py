"""Who trains the model: the weight of each client's local steps in the server model.

Every local step of client i adds the i-th unit vector instead of a gradient. What the algorithm
makes of it is then exact for any method that is linear in the clients' progress: either all the way
to the final server model (`effective_weights`), or what each single answer adds to the server model
when it is used (`answer_weights`), which is all of it for methods that add progress, and in
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
        return end


def effective_weights(algorithm: Algorithm[S], schedule: Schedule) -> Floats:
    """Share of each client in all that moved the server model, (n,); fair is 1/n for each."""
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


def answer_weights(algorithm: Algorithm[S], schedule: Schedule) -> Floats:
    """What each used job adds to the server model in the update that uses it, (jobs,).

    One update at a time, from a server model and start models of zero: job j of the update ends at
    steps_j rate_j times the j-th unit vector. The state goes on as if nobody had moved, so that the
    model stays zero and what else a method remembers (contacts seen, say) is as it would be.
    """
    moved = np.zeros(schedule.jobs)
    far = schedule.steps * algorithm.rate(schedule.client)
    offsets, most = schedule.offsets, int(np.diff(schedule.offsets, prepend=0).max(initial=0))
    state = algorithm.init(torch.zeros(most, dtype=torch.float64))
    for version in range(schedule.updates):
        jobs = np.arange(offsets[version], offsets[version + 1])
        if not len(jobs):
            continue
        start = torch.zeros(len(jobs), most, dtype=torch.float64)
        end = start.clone()
        end[range(len(jobs)), range(len(jobs))] = torch.from_numpy(far[jobs])
        visit = Visit(
            schedule.client[jobs], schedule.steps[jobs], version - 1 - schedule.base[jobs]
        )
        moved[jobs] = algorithm.update(state, visit, start, end).model.numpy()[: len(jobs)]
        state = algorithm.update(state, visit, start, start)
    return moved
