"""The work in a schedule, and how much of it can be done in parallel."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from favano.data import BatchStream
from favano.planning.planned import Planned
from favano.schedule import Schedule
from favano.types import Ints


def critical_path(schedule: Schedule) -> int:
    """The most local steps in a chain of jobs that each need the one before.

    path(-1) = 0; path(v) = max(path(v - 1), path(base_j) + steps_j over the jobs j of update v).
    """
    path = [0]  # of version -1, then of each update
    base, steps = schedule.start_version.tolist(), schedule.steps.tolist()
    for first, last in pairwise(schedule.offsets.tolist()):
        path.append(max([path[-1], *(path[base[j] + 1] + steps[j] for j in range(first, last))]))
    return path[-1]


def workload(planned: Sequence[Planned], batches: Sequence[BatchStream]) -> dict[str, float]:
    """The work of some planned runs, known before any training."""
    plans = [run.schedule for run in planned]
    steps = sum(plan.used_steps for plan in plans)
    path = max(critical_path(plan) for plan in plans)
    return {
        "server_steps": sum(plan.updates for plan in plans),
        "jobs": sum(plan.jobs for plan in plans),
        "local_steps": steps,
        "images": sum(map(image_count, plans, batches)),
        "critical_path": path,
        "parallelism": steps / path,
    }


def image_count(plan: Schedule, batches: BatchStream) -> int:
    """Samples in the mini-batches of all used jobs; the last batch of an epoch may be short."""
    client, first, steps = (
        column[: plan.jobs] for column in (plan.client, plan.first_step, plan.steps)
    )
    batch = batches.batch_size
    if batches.order != "epoch":
        return batch * int(steps.sum())
    size = np.array([len(part) for part in batches.parts])[client]
    epoch = -(-size // batch)  # steps

    def until(step: Ints) -> Ints:
        """Samples in a client's batches before this one."""
        samples: Ints = step // epoch * size + step % epoch * batch
        return samples

    return int((until(first + steps) - until(first)).sum())
