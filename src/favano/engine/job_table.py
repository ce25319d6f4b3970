"""The jobs of many runs as one table of arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np

from favano.engine.replay import Replay
from favano.methods import State
from favano.schedule import Foreseen
from favano.types import Floats, Ints


@dataclass(frozen=True, eq=False)
class JobTable:
    """The jobs of all runs that are used, ordered by run and update.

    Clients, versions and updates are numbered across all runs; version 0 of a run is its initial
    model, version u + 1 the result of update u.
    """

    first_client: Ints  # (runs + 1,)
    first_version: Ints
    first_update: Ints
    run: Ints  # (J,)
    client: Ints
    who: Ints  # the client's number within its run
    base: Ints  # start version
    visit: Ints  # update that uses the job
    staleness: Ints  # updates made between the start version and that update
    first_step: Ints
    steps: Ints
    rate: Floats
    due: Floats  # simulated time of that update
    update_bounds: Ints  # (updates + 1,) first job of each update
    by_base: Ints  # (J,) jobs ordered by start version
    base_bounds: Ints  # (versions + 1,) first position of each version in `by_base`
    takers: Ints  # clients ordered by the version that they receive
    taken_bounds: Ints  # (versions + 1,) first position of each version in `takers`
    leaving: Ints  # versions in the order in which they are dropped
    leaving_bounds: Ints  # (versions + 1,) first position of those dropped after each version

    @cached_property
    def answers(self) -> Ints:
        """Number of jobs of each update."""
        return np.diff(self.update_bounds)


def ranges(first: Ints, last: Ints) -> Ints:
    """The numbers first[0]..last[0]-1, first[1]..last[1]-1, ... one after the other.

    >>> ranges(np.array([3, 7]), np.array([5, 10])).tolist()
    [3, 4, 7, 8, 9]
    """
    lengths = last - first
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    shifted: Ints = np.arange(total) + np.repeat(first - (ends - lengths), lengths)
    return shifted


def job_table(replays: Sequence[Replay[State]]) -> JobTable:
    """The table of these runs, whose schedules must be known in advance."""
    plans = [replay.schedule for replay in replays]
    first_job = np.cumsum([0, *(plan.jobs for plan in plans)])
    first_client = np.cumsum([0, *(plan.clients for plan in plans)])
    first_update = np.cumsum([0, *(plan.updates for plan in plans)])
    first_version = first_update + np.arange(len(plans) + 1)

    def joined(part: Callable[[int], Ints]) -> Ints:
        return np.concatenate([part(run) for run in range(len(plans))])

    used = [slice(0, plan.jobs) for plan in plans]
    base = joined(lambda r: first_version[r] + 1 + plans[r].base[used[r]])
    visit = joined(lambda r: first_update[r] + plans[r].visit[used[r]])
    by_base = np.argsort(base, kind="stable")
    lives = [cast(Foreseen, replay.course).lives for replay in replays]
    takers = [life.takers[life.taken[0] :] for life in lives]
    leaving = [life.versions[: life.gone[len(life.versions) - 1]] for life in lives]
    return JobTable(
        first_client=first_client,
        first_version=first_version,
        first_update=first_update,
        run=np.repeat(np.arange(len(plans)), np.diff(first_job)),
        client=joined(lambda r: first_client[r] + plans[r].client[used[r]]),
        who=joined(lambda r: plans[r].client[used[r]]),
        base=base,
        visit=visit,
        staleness=joined(lambda r: plans[r].visit[used[r]] - 1 - plans[r].base[used[r]]),
        first_step=joined(lambda r: plans[r].first_step[used[r]]),
        steps=joined(lambda r: plans[r].steps[used[r]]),
        rate=np.concatenate([replays[r].rates[used[r]] for r in range(len(plans))]),
        due=np.concatenate([plan.time for plan in plans])[visit],
        update_bounds=np.searchsorted(visit, np.arange(first_update[-1] + 1)),
        by_base=by_base,
        base_bounds=np.searchsorted(base[by_base], np.arange(first_version[-1] + 1)),
        takers=joined(lambda r: first_client[r] + takers[r]),
        taken_bounds=_bounds(
            [np.append(0, life.taken[:-1] - life.taken[0]) for life in lives], takers
        ),
        leaving=joined(lambda r: first_version[r] + 1 + leaving[r]),
        leaving_bounds=_bounds(
            [np.append([0, 0], life.gone)[: len(life.versions) + 1] for life in lives], leaving
        ),
    )


def _bounds(starts: Sequence[Ints], lists: Sequence[Ints]) -> Ints:
    """First position of each version in the concatenated lists of all runs."""
    first = np.cumsum([0, *(len(one) for one in lists)])
    shifted = [start + offset for start, offset in zip(starts, first[:-1], strict=True)]
    return np.append(np.concatenate(shifted), first[-1])
