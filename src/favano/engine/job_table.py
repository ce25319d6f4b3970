"""The jobs of many runs as one table of arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from favano.engine.replay import Replay
from favano.methods import State
from favano.schedule import Foreseen
from favano.types import Floats, Ints


@dataclass(frozen=True, eq=False)
class JobTable:
    """Used jobs of all runs in the order of run and update.

    Clients, versions and updates are numbered across all runs; version 0 of a run is its initial
    model, version u + 1 the result of update u.
    """

    first_client: Ints  # (runs + 1,)
    first_version: Ints
    first_update: Ints
    run: Ints  # (J,)
    client: Ints
    who: Ints  # the client's number within its run
    base: Ints  # version it starts from
    visit: Ints  # update that uses it
    staleness: Ints  # versions made between its start and that update
    first_step: Ints
    steps: Ints
    rate: Floats
    due: Floats  # simulated time of that update
    update_bounds: Ints  # (updates + 1,) jobs of an update
    by_base: Ints  # (J,) jobs in the order of their versions
    base_bounds: Ints  # (versions + 1,) places in `by_base` of a version's jobs
    takers: Ints  # clients in the order of the versions they take
    taken_bounds: Ints  # (versions + 1,)
    leaving: Ints  # versions in the order in which they leave
    leaving_bounds: Ints  # (versions + 1,) places of those that leave once a version is made

    @cached_property
    def answers(self) -> Ints:
        """Jobs of each update."""
        return np.diff(self.update_bounds)


def ranges(first: Ints, last: Ints) -> Ints:
    """first[0]..last[0]-1, first[1]..last[1]-1, ... one after the other.

    >>> ranges(np.array([3, 7]), np.array([5, 10])).tolist()
    [3, 4, 7, 8, 9]
    """
    lengths = last - first
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    shifted: Ints = np.arange(total) + np.repeat(first - (ends - lengths), lengths)
    return shifted


def job_table(replays: Sequence[Replay[State]]) -> JobTable:
    """The table of these runs."""
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
    lives = [_foreseen(replay).lives for replay in replays]
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
        rate=np.concatenate(
            [replay.rates[part] for replay, part in zip(replays, used, strict=True)]
        ),
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


def _foreseen(replay: Replay[State]) -> Foreseen:
    """The course of a run whose schedule is known in advance; other runs have no table."""
    assert isinstance(replay.course, Foreseen)
    return replay.course


def _bounds(starts: Sequence[Ints], lists: Sequence[Ints]) -> Ints:
    """Where the part of each version begins in the concatenated lists of all runs."""
    first = np.cumsum([0, *(len(one) for one in lists)])
    shifted = [start + offset for start, offset in zip(starts, first[:-1], strict=True)]
    return np.append(np.concatenate(shifted), first[-1])
