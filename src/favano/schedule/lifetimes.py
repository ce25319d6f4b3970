"""Which clients take each server version, and after which update nobody needs it any more."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from favano.schedule.schedule import Schedule
from favano.types import Ints


@dataclass(frozen=True)
class Lifetimes:
    """Two lists of lists, each as one array and its bounds; -1 is not among the versions."""

    takers: Ints  # clients whose next job starts from a version, version by version
    taken: Ints  # (V+1,) those of version v are takers[taken[v]:taken[v+1]]
    versions: Ints  # (V,) versions in the order of their last use
    gone: Ints  # (V+2,) those that update u is the last to need are versions[gone[u]:gone[u+1]]


def lifetimes(schedule: Schedule) -> Lifetimes:
    """A version is needed while it is the newest, a client holds it, or a job started from it."""
    order = np.lexsort((schedule.first_step, schedule.begin, schedule.base))
    taken = np.searchsorted(schedule.base[order], np.arange(schedule.updates + 1))
    last = _last_use(schedule)
    versions = np.argsort(last, kind="stable")
    gone = np.searchsorted(last[versions], np.arange(schedule.updates + 2))
    return Lifetimes(schedule.client[order], taken, versions, gone)


def _last_use(schedule: Schedule) -> Ints:
    """For each version, the last update that needs it; V if it is needed at the end."""
    order = np.lexsort((schedule.first_step, schedule.begin, schedule.client))
    client, base, visit = schedule.client[order], schedule.base[order], schedule.visit[order]
    held_until = np.append(base[1:] - 1, schedule.updates)  # the client's next job replaces it
    held_until[np.append(client[1:] != client[:-1], True)] = schedule.updates
    needed = (visit < schedule.updates) | np.isinf(schedule.finish[order])  # used, or under way
    until = np.maximum(np.where(needed, visit, -1), held_until)
    last = np.arange(-1, schedule.updates)  # a version is the server's own until the next one
    np.maximum.at(last, base + 1, until)
    return last[1:]
