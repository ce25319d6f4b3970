"""The program of one run: every model that it makes, known before the first gradient. NumPy only.

The schedule of a run is known, and the server steps of a linear method are weighted sums of models
whose weights do not depend on them. So all that the device has to do can be listed ahead: jobs to
train, and sums to make of their start and end models. Models are numbered in the order of their
kinds: those given at the start, server versions, end models of jobs, and models that clients
continue from.

A *level* says how many trainings follow one another before a version can be made: level l + 1 needs
jobs whose start models have level l. A *wave* is the training of jobs, and then the sums of the
next level. Versions of one level are made one after the other, without a training in between.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from favano.aggregation.aggregator import Aggregator
from favano.aggregation.snapshot import ResumePoint
from favano.engine.held_models import HeldModels, Seen
from favano.engine.products import own_weights
from favano.methods import State
from favano.schedule import Schedule
from favano.types import Floats, Ints

AHEAD = 3  # waves that a job is trained before the last one in which it can be
_MOST_JOBS = 2048  # client updates of a run that are used in one wave, if versions are small


class Sums(NamedTuple):
    """Models that are weighted sums of others, in compressed rows."""

    level: Ints  # (m,) at which each is made
    version: Ints  # (m,) the version that each is, or comes with
    model: Ints  # (m,) its number
    first: Ints  # (m + 1,) place of its first term
    terms: Ints  # (t,) numbers of models
    weights: Floats | None  # (t,) None: computed later, version by version


@dataclass(frozen=True)
class RunProgram:
    """What a run makes, and of what."""

    first: int  # the first version that is made
    given: int  # models that are there at the start
    models: int  # all models
    level: Ints  # (V - first + 1,) of the version before the first, 0, and of those that are made
    jobs: Ints  # (j,) numbers of the jobs that are trained
    wave: Ints  # (j,) in which they are
    start: Ints  # (j,) models that they start from
    end: Ints  # (j,) models that they end with
    versions: Sums
    own: Sums | None  # models that clients continue from
    seen: list[Seen]
    kept: tuple[Ints, Ints]  # models, and the version until which a snapshot may need each
    clients: HeldModels

    def model(self, version: int) -> int:
        """The number of a version among the models."""
        if version < self.first:
            return self.clients.server
        return self.given + version - self.first


def plan_run(run: Aggregator[State], times: Floats) -> RunProgram | None:
    """The program of a run from where it is now; None: its models cannot be listed ahead.

    Args:
        run: any run.
        times: of the evaluations that are still to be made.
    """
    flat = run.layout.size == run.layout.parameters
    if not (run.linear and run.plain and flat and run.schedule.updates > run.version + 1):
        return None
    plan, point, first = run.schedule, run.resume_point, run.version + 1
    begin, given = int(plan.offsets[first]), 1 if point is None else len(point.snapshot.models)
    used = np.arange(begin, plan.jobs)
    versions, steps = given + plan.updates - first, plan.steps[used]
    has_own = run.method.has("next_client_model")
    starts = _starts(plan, point, first, given, versions + len(used) if has_own else None)
    ends = np.where(steps > 0, versions + np.arange(len(used)), starts[used])
    counts = np.diff(plan.offsets[first:])
    use, base = plan.used_by[used] - first, np.maximum(plan.start_version[used] - first + 1, 0)
    # Models that clients continue from are made after the versions of their level.
    level = _levels(_largest(np.where((steps > 0) | has_own, base, -1), counts), counts)
    wave = np.maximum(level[base], level[use + 1] - 1 - AHEAD)
    sums = _version_sums(level, counts, given, first, starts[used], ends, point)
    own = None
    if has_own and (own := _own_sums(run, sums, counts, versions + len(used))) is None:
        return None
    trained = steps > 0
    clients = HeldModels(plan, point, first, starts, versions + len(used) if has_own else None)
    return RunProgram(
        first,
        given,
        versions + len(used) * (1 + has_own),
        level,
        used[trained],
        wave[trained],
        starts[used][trained],
        ends[trained],
        sums,
        own,
        *clients.seen(times, given),
        clients,
    )


def _starts(
    plan: Schedule, point: ResumePoint | None, first: int, given: int, own: int | None
) -> Ints:
    """(J,) the start model of each job; of those that are over, no meaning."""
    starts = np.maximum(given + plan.start_version - first, 0)
    if point is None:
        starts[plan.start_version < 0] = 0
    if own is not None:
        # A client continues from the model that it got in the last update before its job.
        last = _last_use(plan, first)
        starts = np.where(last >= 0, own + last, starts)
        if point is not None:
            held = point.snapshot.held
            before = held.own[plan.client] & (last < 0)
            starts = np.where(before, held.place[plan.client], starts)
    if point is not None:
        starts[point.jobs] = point.place
    return np.asarray(starts, np.int64)


def _last_use(plan: Schedule, first: int) -> Ints:
    """(J,) which update of its client was the last when a job began, from `first` on; -1: none."""
    begin = int(plan.offsets[first])
    used = slice(begin, plan.jobs)
    key = plan.client[used] * (plan.updates + 2) + plan.used_by[used] + 1
    order = np.argsort(key, kind="stable")
    wanted = plan.client * (plan.updates + 2) + plan.start_version + 1
    place = np.searchsorted(key[order], wanted, side="right") - 1
    job = order[np.maximum(place, 0)] if len(order) else np.zeros(len(wanted), np.int64)
    if not len(order):
        return np.full(len(wanted), -1)
    return np.where((place >= 0) & (plan.client[used][job] == plan.client), job, -1)


def _largest(values: Ints, counts: Ints) -> Ints:
    """The largest of each update's values; -1 where it has none."""
    largest = np.full(len(counts), -1)
    some = np.flatnonzero(counts)
    if len(some):
        ends = np.cumsum(counts)
        largest[some] = np.maximum.reduceat(values, (ends - counts)[some])
    return largest


def _levels(newest: Ints, counts: Ints) -> Ints:
    """The level of each version: after the newest start version that its training needs.

    Args:
        newest: (m,) place of that version, where the one before the first is 0; -1: no training.
        counts: (m,) client updates. Too many of one level would be in memory at the same time.
    """
    level, number = [0], 0
    for start, count in zip(newest.tolist(), counts.tolist(), strict=True):
        here = max(level[-1], 1, 1 + level[start] if start >= 0 else 1)
        number = number + count if here == level[-1] else count
        if number > _MOST_JOBS and number > count:
            here, number = here + 1, count
        level.append(here)
    return np.array(level, dtype=np.int64)


def _version_sums(
    level: Ints,
    counts: Ints,
    given: int,
    first: int,
    start: Ints,
    end: Ints,
    point: ResumePoint | None,
) -> Sums:
    """Each version is a sum of the one before it, and of its jobs' start and end models."""
    updates = len(counts)
    model = given + np.arange(updates)
    before = model - 1
    before[:1] = 0 if point is None else point.snapshot.server
    begin = np.cumsum([0, *(1 + 2 * counts)])
    terms = np.empty(begin[-1], dtype=np.int64)
    terms[begin[:-1]] = before
    update = np.repeat(np.arange(updates), counts)
    place = (
        begin[update] + 1 + np.arange(len(update)) - np.repeat(np.cumsum(counts) - counts, counts)
    )
    terms[place], terms[place + counts[update]] = start, end
    return Sums(level[1:], first + np.arange(updates), model, begin, terms, None)


def _own_sums(run: Aggregator[State], versions: Sums, counts: Ints, first: int) -> Sums | None:
    """The models that clients continue from, each a sum of a few terms of its version's.

    None: some continue from the server's.
    """
    parts, jobs = [], np.cumsum(counts) - counts
    for count in np.unique(counts[counts > 0]).tolist():
        weights = own_weights(run.method, count)
        if weights is None:
            return None
        updates = np.flatnonzero(counts == count)
        row, column = np.nonzero(weights)
        terms = versions.terms[versions.first[updates][:, None] + column]
        sizes = np.tile(np.bincount(row, minlength=count), len(updates))
        model = first + (jobs[updates][:, None] + np.arange(count)).ravel()
        about = (np.repeat(column[updates], count) for column in (versions.level, versions.version))
        repeated = np.tile(weights[row, column], len(updates))
        parts.append((*about, model, sizes, terms.ravel(), repeated))
    if not parts:
        none = np.zeros(0, np.int64)
        return Sums(none, none, none, np.zeros(1, np.int64), none, np.zeros(0))
    columns = (np.concatenate(part) for part in zip(*parts, strict=True))
    level, version, model, sizes, terms, weights = columns
    return Sums(level, version, model, np.cumsum([0, *sizes]), terms, weights)
