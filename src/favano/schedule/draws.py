"""Vectorised draws and sums for all policies: random subsets, step times, totals per client."""

from __future__ import annotations

import numpy as np

from favano.errors import require
from favano.policies import Policy, Selector, StepsPerJob
from favano.timing import ClientSpeeds, Trace
from favano.timing.ties import before
from favano.types import Floats, Ints

_BLOCK = 2_000_000  # numbers drawn at once: enough to amortise NumPy, small enough for the cache


def selected_clients(fleet: ClientSpeeds, selector: Selector, size: int, rounds: int) -> Ints:
    """The clients of the next rounds, (rounds, size), ordered by stream.

    Rules know clients by their streams, so that renumbering the clients together with their streams
    only renumbers what is selected.
    """
    by_stream = np.argsort(fleet.streams)
    if size == fleet.clients:
        return np.tile(by_stream, (rounds, 1))
    streams, chosen = fleet.streams[by_stream], np.empty((rounds, size), dtype=np.int64)
    for part in blocks(rounds, fleet.clients):
        chosen[part] = selector.select_ahead(streams, size, len(chosen[part]))
    return by_stream[np.searchsorted(streams, chosen)]


def client_steps(policy: Policy, fleet: ClientSpeeds) -> Ints:
    """K of each client, (n,). Policies know clients by their streams."""
    return job_steps(policy.local_steps, fleet)


def job_steps(steps: StepsPerJob, fleet: ClientSpeeds) -> Ints:
    """A number of steps for each client, (n,)."""
    if isinstance(steps, int):
        return np.full(fleet.clients, steps)
    rule = f"need one number for all clients, or one for each ({fleet.clients})"
    require(len(steps) == fleet.clients, "local_steps", f"{len(steps)} numbers", rule)
    return np.array(steps)[fleet.streams]


def alike_jobs(kind: Ints, steps: Ints) -> Ints:
    """Number of each client's kind of job, (n,): clients of one kind with equal K share it."""
    pairs = np.stack([kind, steps], axis=1)
    return np.unique(pairs, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)


def step_ends(fleet: ClientSpeeds, client: Ints, first: Ints, steps: Ints, seed: int) -> Floats:
    """When each step of a job ends, from the job's start, (m, largest K); infinity after its last.

    Its step times are the client's draws from number `first` on.
    """
    number = np.arange(steps.max(initial=0))
    ends = np.cumsum(fleet.durations(seed, client[:, None], first[:, None] + number), axis=1)
    return ends if (steps == len(number)).all() else np.where(number < steps[:, None], ends, np.inf)


def job_ends(ends: Floats, steps: Ints) -> Floats:
    """When the last step of each job ends, (m,)."""
    return np.take_along_axis(ends, steps[:, None] - 1, axis=1)[:, 0]


def draws_used(fleet: ClientSpeeds, ends: Floats, steps: Ints, worked: Floats) -> Ints:
    """How many draws are used up by jobs that are stopped after the time `worked`, (m,).

    Random draws cost nothing, and a job has K of its own. The lines of a recording are played in
    order: those of all steps that the job has begun, the one that was interrupted included.
    """
    if not isinstance(fleet.law, Trace):
        return steps
    starts = np.concatenate([np.zeros((len(ends), 1)), ends[:, :-1]], axis=1)
    begun: Ints = before(starts, worked[:, None]).sum(axis=1)
    return np.minimum(begun, steps)


def blocks(rows: int, columns: int) -> list[slice]:
    """Slices of `rows` such that each block of `columns` columns is small."""
    size = max(1, _BLOCK // columns)
    return [slice(first, first + size) for first in range(0, rows, size)]


def total_before(client: Ints, value: Ints) -> Ints:
    """For each row, the sum of `value` over the earlier rows of the same client.

    >>> total_before(np.array([7, 3, 7, 7]), np.array([1, 10, 2, 5])).tolist()
    [0, 0, 1, 3]
    """
    order = np.argsort(client, kind="stable")
    running = np.cumsum(value[order]) - value[order]
    starts = np.flatnonzero(np.diff(client[order], prepend=-1))
    length = np.diff(np.append(starts, len(client)))
    result = np.empty_like(running)
    result[order] = running - np.repeat(running[starts], length)
    return result
