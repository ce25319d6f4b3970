"""A snapshot: everything that a run at one version needs to go on."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from favano.aggregation.client_memory import KeptByClients
from favano.methods import State
from favano.schedule import Timeline
from favano.types import Floats, Ints, Mask, Vector


class NoSnapshot(ValueError):
    """A run cannot be saved, or cannot go on from what was saved; one sentence says why."""


class BeyondTheEnd(NoSnapshot):
    """What was saved belongs to a longer run."""


class Held(NamedTuple):
    """Which model each client holds, that of the last job which it has begun, (n,) each."""

    place: Ints  # of the model among those of the snapshot
    version: Ints  # that the client holds
    own: Mask  # whether the client continues from a model of its own
    apart: Ints  # order in which clients got models that they do not share; 0: a shared version


class Waiting(NamedTuple):
    """Jobs that have begun and are not used yet, (k,) each.

    Numbers of jobs change with the horizon. A client starts all its jobs of one version from the
    same model, so client and version name the start model for any horizon.
    """

    client: Ints
    start_version: Ints
    place: Ints  # of the start model among those of the snapshot


class RunMemory(NamedTuple):
    """What the server's side of a run remembers."""

    beginning: str  # digest of the schedule so far
    values: Floats | None  # that the policy has seen, if the schedule grows with the run
    state: State  # of the method; its model is that of the server
    server: tuple[object, ...]  # states of the server's transforms
    clients: KeptByClients
    last_reply: dict[int, Vector]  # of a codec
    wrapped: int | None


class Snapshot(NamedTuple):
    """A run after an update, when all jobs that start from the new version have their models.

    Models that finished jobs have ended with are left out: these jobs are trained again.
    """

    version: int
    models: npt.NDArray[np.generic]  # (m, size) in use: the server's, the clients', start models
    server: int  # place of the server model among them
    held: Held
    waiting: Waiting
    memory: RunMemory


KINDS = (Snapshot, Held, Waiting, RunMemory, KeptByClients)  # named tuples in a snapshot


class ResumePoint(NamedTuple):
    """Where a run goes on: a snapshot, and the jobs of the timeline whose start models it has."""

    snapshot: Snapshot
    jobs: Ints  # numbers of jobs
    place: Ints  # of their start models


def jobs_under_way(timeline: Timeline, snapshot: Snapshot) -> ResumePoint:
    """Find the jobs under way among those of the timeline, which may have another horizon."""
    known, version, waiting = timeline.known, snapshot.version, snapshot.waiting
    pairs = zip(waiting.client.tolist(), waiting.start_version.tolist(), strict=True)
    start = dict(zip(pairs, waiting.place.tolist(), strict=True))
    entries = []
    for job in np.flatnonzero(
        (known.start_version <= version) & (known.used_by > version)
    ).tolist():
        client = int(known.client[job])
        place = start.get((client, int(known.start_version[job])))
        if place is None and np.isfinite(timeline.due[job]):
            raise NoSnapshot("the start model of a job that is used now was not kept")
        if place is not None:
            entries.append((job, place))
    jobs, places = np.array(entries, dtype=np.int64).reshape(-1, 2).T
    return ResumePoint(snapshot, jobs, places)


def beginning_digest(timeline: Timeline, rates: Floats, version: int) -> str:
    """A digest of the schedule up to a version; equal for two horizons if they begin alike."""
    known = timeline.known
    used = np.flatnonzero(known.used_by <= version)
    under_way = np.flatnonzero((known.used_by > version) & (known.start_version <= version))
    order = np.lexsort((known.client[under_way], known.start_version[under_way]))
    parts = [
        *(
            column[used]
            for column in (known.client, known.steps, known.start_version, known.used_by)
        ),
        known.first_step[used],
        rates[used],
        known.time[: version + 1],
        known.wasted_steps[: version + 1],
        known.start_version[under_way][order],
        known.client[under_way][order],
    ]
    if known.scale is not None:
        parts.append(known.scale[used])
    digest = hashlib.sha256()
    for part in parts:
        digest.update(np.ascontiguousarray(part).tobytes())
    return digest.hexdigest()
