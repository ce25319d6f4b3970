"""Who trains the model: the weight of each client's local steps in the server model.

Every local step adds a unit vector instead of a gradient: the one of its client, or of its client's
group, or of its group and the stretch of the schedule in which it is used. What the algorithm makes
of it, all the way to the final server model, is then exact for any method that is linear in the
clients' progress.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from favano.algorithms.base import Algorithm, S
from favano.engine.replay import Replay
from favano.errors import need
from favano.schedule import Adaptive, Schedule
from favano.training import Layout, Work
from favano.types import Floats, Ints, Stack

STRETCHES = 20
_COLUMNS_AT_ONCE = 1000


def effective_weights(
    algorithm: Algorithm[S], schedule: Schedule, group: Ints | None = None
) -> Floats:
    """Share of each client in all that moved the server model, (n,); fair is 1/n for each.

    With `group`, (n,), the shares of groups of clients instead, at the cost of their number.
    """
    of = np.arange(schedule.clients) if group is None else group
    moved = _moved(algorithm, schedule, of[schedule.client], int(of.max()) + 1)
    total = moved.sum()
    return moved / total if total else moved


def stretch_weights(algorithm: Algorithm[S], schedule: Schedule, group: Ints) -> Floats:
    """The same of groups of clients, cut along the schedule: (B, g), up to 20 stretches.

    Row b is what the answers of one stretch of updates have in the final server model; all rows
    together are the shares of the groups. Stretches are cut so that each has about the same weight.
    For a method that only adds progress they are equally long; where every update makes the model
    forget, as in FedAsync, most of them lie near the end.
    """
    groups = int(group.max()) + 1
    edges = _equal_stretches(algorithm, schedule)
    stretch = np.searchsorted(edges, schedule.visit, side="right") - 1
    stretch = stretch.clip(0, len(edges) - 1)  # jobs that no update uses lie beyond the last
    columns = len(edges) * groups
    moved = _moved(algorithm, schedule, stretch * groups + group[schedule.client], columns)
    total = moved.sum()
    return (moved / total if total else moved).reshape(len(edges), groups)


def late_weights(algorithm: Algorithm[S], schedule: Schedule, group: Ints) -> Floats:
    """Shares of groups of clients in up to 20 server models of the second half, (m, g).

    They are alike where a model is made of many answers, and far apart where it is mostly the last
    client's, and so, since that client went on from its own, what only few clients ever did.
    """
    last = max(schedule.updates - 1, 0)
    versions = np.unique(np.linspace((last + 1) // 2, last, STRETCHES).astype(np.int64))
    place = group[schedule.client]
    moved = _moved(algorithm, schedule, place, int(group.max()) + 1, versions.tolist())
    total = moved.sum(axis=1, keepdims=True)
    return moved / np.where(total == 0, 1.0, total)


def _equal_stretches(algorithm: Algorithm[S], schedule: Schedule) -> Ints:
    """First updates of stretches of about equal weight.

    The weight of the last update, the 2 before it, the 4 before them, ... says how fast the model
    forgets; within these it is taken to be even.
    """
    updates = schedule.updates
    age = np.maximum(updates - 1 - schedule.visit, 0)
    doubling = np.log2(age + 1.0).astype(np.int64)
    count = int(np.log2(max(updates, 1))) + 1
    weight = np.maximum(_moved(algorithm, schedule, doubling.clip(0, count - 1), count), 0.0)
    if not weight.sum():
        return np.zeros(1, dtype=np.int64)
    ages = np.minimum(2.0 ** np.arange(count + 1) - 1, updates)
    wanted = np.linspace(0, weight.sum(), STRETCHES + 1)[1:]
    cuts = np.interp(wanted, np.concatenate([[0.0], weight.cumsum()]), ages)
    firsts = np.append(updates - cuts.round().astype(np.int64), 0)
    return np.unique(firsts.clip(0, updates - 1))


def _moved(
    algorithm: Algorithm[S],
    schedule: Schedule,
    place: Ints,
    columns: int,
    versions: Sequence[int] = (),
) -> Floats:
    """How far the final server model is moved by the steps of jobs, summed by place, (columns,).

    With `versions` the same of each of these server models, (m, columns).
    """
    rule = "its steps depend on the models, so that clients have no weights of their own"
    adaptive = isinstance(algorithm.policy, Adaptive)
    need(not adaptive, "algorithm", type(algorithm).__name__, rule)
    rates, parts = algorithm.rate(schedule.client), []
    for first in range(0, columns, _COLUMNS_AT_ONCE):
        size = min(_COLUMNS_AT_ONCE, columns - first)
        initial = torch.zeros(size, dtype=torch.float64)
        layout = Layout(parameters=size, buffers=0, counters=0)
        replay = Replay(algorithm, schedule, layout, rates, initial)
        kept = {}
        for version in range(schedule.updates):
            jobs = replay.jobs(version)
            start = replay.starts(jobs)
            end = _unit_steps(start, replay.work(jobs), place[jobs] - first)
            server = replay.update(start, end, [True] * len(jobs)).server
            if version in versions:
                kept[version] = server.numpy()
        final = replay.moment.server.numpy()
        parts.append(np.array([kept.get(one, final) for one in versions]) if versions else final)
    return np.concatenate(parts, axis=-1)


def _unit_steps(start: Stack, work: Work, place: Ints) -> Stack:
    """Training that counts: `rate` per step, in the coordinate of the job."""
    end, far = start.clone(), work.steps * work.rate
    inside = np.flatnonzero((place >= 0) & (place < start.shape[1]))
    end[torch.from_numpy(inside), torch.from_numpy(place[inside])] += torch.from_numpy(far[inside])
    if work.drift is not None:
        end -= torch.from_numpy(far)[:, None] * work.drift
    return end
