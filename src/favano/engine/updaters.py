"""Three ways to make the next server versions of runs, from the client updates that are in.

One by one is what the method says, literally. On a GPU, one update of a small model takes the host
longer than the device. So where the new server model is a weighted sum of the models at hand, only
the weights are computed on the host, for many runs or many versions, and the sums by one product.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Protocol

import numpy as np
import torch

from favano.aggregation.aggregator import Aggregator, Update
from favano.engine import products
from favano.engine.dispatcher import Dispatcher
from favano.engine.products import AggregationWeights, WeightCache
from favano.engine.run_table import NewVersions, RunTable
from favano.methods import ClientUpdates, State
from favano.methods.arrays import coefficients, units
from favano.types import Floats, Ints, Stack

_NUMBERS_AT_ONCE = 1 << 29  # numbers in the models of one product
_LONGEST = 64  # versions of one run that are made at once

Due = Callable[[int, int], bool]  # whether a version of a run is evaluated


class Updater(Protocol):
    """Makes server versions of runs whose next client updates are all in."""

    def update(self, runs: Sequence[int]) -> list[NewVersions]:
        """At least one new version of each of these runs."""


class OneByOne:
    """Updates as the method makes them, any method's."""

    def __init__(self, runs: RunTable, dispatcher: Dispatcher) -> None:
        self._runs, self._within_memory = runs, dispatcher.retry_with_fewer_lanes

    def update(self, runs: Sequence[int]) -> list[NewVersions]:
        """The next version of each run."""
        return [self._update(run) for run in runs]

    def _update(self, run: int) -> NewVersions:
        models, table, clients = self._runs.models, self._runs.jobs, self._runs.clients
        jobs, aggregator = self._runs.next_jobs[run], self._runs.aggregators[run]
        server = self._runs.server_model(run)

        def aggregate() -> Update:
            models.reserve(1 + len(jobs))  # before the state changes
            start, end = models.take(table.start[jobs]), models.take(table.end[jobs])
            return aggregator.update(server, start, end, table.finite[jobs])

        update = self._within_memory(aggregate)
        if update.own is not None:
            clients.keep_own(clients.first[run] + update.clients, update.own)
        return NewVersions(run, jobs, models.store(update.server[None]))


class ByDistances:
    """Several versions of runs at once, whose weights depend on distances between models.

    Args:
        runs: state of all runs.
        dispatcher: gives lanes' memory back if it is short.
        due: evaluated versions, which end a chain: only its last version is seen from outside.
    """

    def __init__(self, runs: RunTable, dispatcher: Dispatcher, due: Due) -> None:
        self._runs, self._within_memory, self._due = runs, dispatcher.retry_with_fewer_lanes, due
        most = (1 + 2 * _LONGEST) * runs.layout.size
        self._at_once = max(1, _NUMBERS_AT_ONCE // (4 * most))  # runs, with models in float64

    def update(self, runs: Sequence[int]) -> list[NewVersions]:
        """The next versions of each run, as long as their jobs are finished."""
        groups = (
            runs[first : first + self._at_once] for first in range(0, len(runs), self._at_once)
        )
        return [versions for some in groups for versions in self._update(some)]

    def _update(self, runs: Sequence[int]) -> list[NewVersions]:
        state = self._runs
        jobs = [self._finished(run) for run in runs]
        numbers = [state.jobs.of(run)[of] for run, of in zip(runs, jobs, strict=True)]
        at_hand = _model_rows(state, runs, numbers)

        def gather() -> tuple[Stack, Floats]:
            models = state.models.take(at_hand)
            state.models.reserve(sum(map(len, jobs)))
            basis = models[..., : state.layout.parameters].to(torch.float64, copy=True)
            basis[:, 1:] -= basis[:, :1]
            return models, (basis @ basis.mT).cpu().numpy()

        models, inner = self._within_memory(gather)
        walked = []
        for run, of, products_of_run in zip(runs, jobs, inner, strict=True):
            here = slice(1 + 2 * len(of))
            due = partial(self._due, run)
            walked.append(walk(state.aggregators[run], of, products_of_run[here, here], due))
        lengths = [len(used) for used, _ in walked]
        weights = np.zeros((len(walked[0][1]), len(runs), max(lengths), at_hand.shape[1]))
        for row, (used, mine) in enumerate(walked):
            weights[:, row, : len(used), : mine.shape[2]] = mine
        mixed = self._within_memory(partial(products.weighted, models, weights, state.layout))
        servers = torch.cat([made[:length] for made, length in zip(mixed, lengths, strict=True)])
        rows = np.split(state.models.store(servers), np.cumsum(lengths)[:-1])
        used = [
            state.jobs.of(run)[np.concatenate(of)]
            for run, (of, _) in zip(runs, walked, strict=True)
        ]
        return [NewVersions(*about) for about in zip(runs, used, rows, strict=True)]

    def _finished(self, run: int) -> Ints:
        """Jobs of a run that are finished, those of its next update first."""
        table, timeline = self._runs.jobs, self._runs.aggregators[run].timeline
        numbers, first = table.of(run), timeline.jobs(self._runs.aggregators[run].version + 1)
        others = np.setdiff1d(np.flatnonzero(table.end[numbers] >= 0), first)
        others = others[np.argsort(table.due[numbers[others]], kind="stable")]
        return np.concatenate([first, others])[:_LONGEST]


def walk(
    run: Aggregator[State], jobs: Ints, inner: Floats, due: Callable[[int], bool]
) -> tuple[list[Ints], Floats]:
    """Make updates as long as they use these jobs, at most up to a version that is due.

    Args:
        run: advances by these updates.
        jobs: (j,) that are finished, those of the next update first.
        inner: (k, k) inner products of the server model, and of the differences of j start models
            and j end models from it.
        due: whether a version is evaluated.

    Returns:
        The jobs of each update, and weights of these models in the new server models,
        (parts, m, k), as `weighted` takes them.
    """
    models, place = units(inner), {job: number for number, job in enumerate(jobs.tolist())}
    starts, ends = models[1 : 1 + len(jobs)], models[1 + len(jobs) :]
    known, rate = run.timeline.known, run.rates[jobs]
    client, steps, base = known.client[jobs], known.steps[jobs], known.start_version[jobs]
    run.state, buffers = run.state._replace(model=models[0]), models[0]
    used, versions = list[Ints](), []
    while not used or (run.knows_next and not (run.over or due(run.version))):
        wanted = run.timeline.jobs(run.version + 1)
        places = [place.get(job, -1) for job in wanted.tolist()]
        if -1 in places:
            break
        # A slice is faster, and updates are often of one job.
        at = slice(places[0], places[0] + 1) if len(places) == 1 else np.array(places, np.int64)
        about = client[at], steps[at], run.version - base[at], rate[at], run.version + 1
        updates = ClientUpdates(*about, starts[at], ends[at])
        buffers = run.combine(buffers, updates)
        used.append(wanted)
        while run.clock is not None and run.can_learn and run.clock.awaited in place:
            next_job = place[run.clock.awaited]
            run.learn(math.nan, run.state.model, starts[next_job], ends[next_job])
        versions.append((run.state.model, buffers, at))
    servers, averaged, answers = zip(*versions, strict=True)
    parts = [coefficients(servers)]
    if run.layout.buffers:
        parts.append(coefficients(averaged))
    if run.layout.counters:
        counted = np.zeros((len(used), len(inner)))
        counted[:, 0] = 1.0
        for version, at in enumerate(answers):
            counted[version:, 1 + len(jobs) :][:, at] = 1.0
        parts.append(counted)
    return used, np.stack(parts)


class ByProducts:
    """Versions of many runs, and several of each, by one product; equal up to rounding.

    Args:
        runs: state of all runs.
        dispatcher: gives lanes' memory back if it is short.
        due: evaluated versions, which end a chain; None: every version is seen from outside.
    """

    def __init__(self, runs: RunTable, dispatcher: Dispatcher, due: Due | None) -> None:
        self._runs, self._within_memory, self._due = runs, dispatcher.retry_with_fewer_lanes, due
        self.supports = np.array([run.linear for run in runs.aggregators])  # (R,)
        buffers = runs.layout.buffers > 0
        self._caches = [WeightCache(run.method, with_buffers=buffers) for run in runs.aggregators]
        # By run, with the version they follow: state after each of its next updates, and weights.
        self._prepared: dict[int, tuple[int, list[tuple[State, AggregationWeights]]]] = {}
        widest = 1 + 2 * max(run.schedule.clients for run in runs.aggregators)
        self._at_once = max(1, _NUMBERS_AT_ONCE // (runs.layout.size * widest))  # models

    def prepare(self) -> None:
        """Compute the weights of all next updates, while the lanes are busy."""
        for run in np.flatnonzero(self._runs.active & self.supports).tolist():
            self._weights(run)

    def update(self, runs: Sequence[int]) -> list[NewVersions]:
        """The next versions of these runs. Short and long chains are not padded to one length."""
        jobs = {run: self._chain(run) for run in runs}
        length = {run: len(self._weights(run)) for run in runs}
        single = [run for run in runs if length[run] == 1]
        longer = sorted(set(runs).difference(single), key=length.__getitem__)
        new = []
        for group in (single, longer):
            at_once = max(1, self._at_once // max((length[run] for run in group), default=1))
            for first in range(0, len(group), at_once):
                new += self._update({run: jobs[run] for run in group[first : first + at_once]})
        return new

    def _update(self, jobs: dict[int, Ints]) -> list[NewVersions]:
        """Versions of these runs by one product."""
        state, runs = self._runs, list(jobs)
        rows = _model_rows(state, runs, list(jobs.values()))
        chains = [[weights for _, weights in self._weights(run)] for run in runs]

        def product() -> tuple[Stack, list[tuple[Ints, Stack]]]:
            models = state.models.take(rows)
            servers = products.new_servers(models, chains, state.layout)
            own = products.new_own(models, [chain[0] for chain in chains], state.layout)
            state.models.reserve(len(servers) + sum(len(stack) for _, stack in own))
            return servers, own

        servers, own = self._within_memory(product)
        for run in runs:
            aggregator, (_, updates) = state.aggregators[run], self._prepared.pop(run)
            aggregator.state = updates[-1][0]
            for _ in updates:
                aggregator.version += 1
        for places, models in own:
            clients = [state.jobs.client[state.next_jobs[runs[at]]] for at in places.tolist()]
            state.clients.keep_own(np.concatenate(clients), models)
        ends = np.cumsum([len(chain) for chain in chains])[:-1]
        kept = np.split(state.models.store(servers), ends)
        return [NewVersions(run, jobs[run], new) for run, new in zip(runs, kept, strict=True)]

    def _weights(self, run: int) -> list[tuple[State, AggregationWeights]]:
        """States and weights of a run's next updates that were computed so far, at least one."""
        aggregator, (version, known) = (
            self._runs.aggregators[run],
            self._prepared.get(run, (-2, [])),
        )
        if version != aggregator.version:  # another updater may have made the version in between
            updates = _unit_updates(self._runs, run, self._runs.next_jobs[run])
            known = [self._caches[run](aggregator.state, updates)]
            self._prepared[run] = aggregator.version, known
        return known

    def _chain(self, run: int) -> Ints:
        """The jobs of a run's next updates that can be made at once; computes their weights.

        Jobs that were trained ahead let a run make many versions without a launch in between. Their
        weights do not depend on models, so one product of weights gives the last version of all.
        The chain ends with a version that is evaluated, and where an update needs the one before it
        for more than the server model, as clients that continue from their own models do.
        """
        state, aggregator, table = self._runs, self._runs.aggregators[run], self._runs.jobs
        known, jobs, first = self._weights(run), state.next_jobs[run], aggregator.version + 1
        due, own_models = self._due, aggregator.method.has("next_client_model")
        if due is None or state.any_non_finite or aggregator.nearly_over or own_models:
            return jobs
        following = table.of(run)[aggregator.timeline.jobs(first + 1)]
        if (table.end[following] < 0).any():  # as a rule
            return jobs
        places = aggregator.schedule.offsets[first : first + _LONGEST + 1]
        jobs, ends = table.of(run)[places[0] : places[-1]], places[1:] - places[0]
        missing = np.flatnonzero(table.end[jobs] < 0)
        if len(missing):
            ends = ends[: np.searchsorted(ends, missing[0], side="right")]
        evaluated = (due(run, version) for version in range(first, first + len(ends) - 1))
        length = next((number for number, is_due in enumerate(evaluated, 1) if is_due), len(ends))
        for number, (begin, end) in enumerate(pairwise(ends[:length].tolist()), 1):
            updates = _unit_updates(state, run, jobs[begin:end], number)
            known.append(self._caches[run](known[-1][0], updates))
        return jobs[: ends[length - 1]]


def _unit_updates(runs: RunTable, run: int, jobs: Ints, later: int = 0) -> ClientUpdates:
    """Client updates of a run's next update, or of one that many updates later."""
    table, version = runs.jobs, runs.aggregators[run].version + 1 + later
    stale = version - 1 - table.start_version[jobs]
    who, steps, rate = table.client_in_run[jobs], table.steps[jobs], table.rate[jobs]
    return products.unit_updates(who, steps, stale, rate, version)


def _model_rows(runs: RunTable, which: Sequence[int], lists: Sequence[Ints]) -> Ints:
    """Rows of each run's [server, starts, ends] of these jobs, (U, 1 + 2k), padded with server."""
    jobs, updates = np.concatenate(lists), np.array([len(numbers) for numbers in lists])
    rows = np.repeat(runs.server[list(which)][:, None], 1 + 2 * int(updates.max()), axis=1)
    update = np.repeat(np.arange(len(which)), updates)
    place = 1 + np.arange(len(jobs)) - np.repeat(np.cumsum(updates) - updates, updates)
    rows[update, place] = runs.jobs.start[jobs]
    rows[update, place + updates[update]] = runs.jobs.end[jobs]
    return rows
