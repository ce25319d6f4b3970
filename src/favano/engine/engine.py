"""The engine: many runs on one set of lanes; a job is trained as soon as its start model exists.

A *job* is the local training of one client from one start model, a *lane* trains one job at a time.
The schedule is known in advance, so lanes need not wait for each server step. They train the ready
jobs whose server steps come first, over all runs; whenever some are finished, all server steps are
made whose client updates are in. So long jobs are trained beside short ones, and jobs of later
server steps fill lanes that would be idle. Models are rows of one tensor; here, row indices.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import numpy as np

from favano.aggregation.aggregator import NO_INDICES, Aggregator
from favano.aggregation.snapshot import ResumePoint
from favano.engine.dispatcher import Dispatcher
from favano.engine.reporter import Reporter, RunEvent, Scoring
from favano.engine.run_table import NewVersions, RunTable
from favano.engine.updaters import ByDistances, ByProducts, OneByOne, Updater
from favano.errors import NonFiniteUpdate
from favano.methods import State
from favano.training import Lanes, to_device
from favano.types import Ints


class Engine:
    """Runs that share lanes.

    Args:
        runs: one aggregator per run, of models of one size.
        lanes: train the jobs; each is told the number of its run.
        products: make server steps of linear methods as products of weights and models, those of
            all runs together; equal up to rounding.
        scoring: evaluates server versions, those of several runs together; it says at which an
            evaluation is due.
        rows: number of models to reserve memory for.
    """

    def __init__(
        self,
        runs: Sequence[Aggregator[State]],
        lanes: Lanes,
        *,
        products: bool = False,
        scoring: Scoring | None = None,
        rows: int = 0,
    ) -> None:
        self._runs = table = RunTable(runs)
        table.models.reserve(rows)
        self._dispatcher = dispatcher = Dispatcher(table, lanes)
        self._reporter = Reporter(table, dispatcher, scoring)
        due = None if scoring is None else scoring.due
        self._growing = [run for run, of in enumerate(runs) if of.clock is not None]
        self._one_by_one = OneByOne(table, dispatcher)
        self._by_products = ByProducts(table, dispatcher, due) if products else None
        # For weights that depend on distances between models. It makes several server steps at
        # once: only if nobody asks for the versions between.
        self._by_distances = ByDistances(table, dispatcher, due) if products and due else None

    @property
    def kept(self) -> int:
        """Number of models in memory."""
        return self._runs.models.used

    def events(self, *, at_once: int) -> Iterator[RunEvent]:
        """The server versions of all runs, each run's in order; `at_once` runs are open at a time.

        With `scoring` not all of them: a run's first two, those at which something is due, and two
        per second. If a run fails, the others continue.
        """
        waiting = np.arange(len(self._runs.aggregators))
        while True:
            free = max(0, at_once - int(self._runs.active.sum()))
            begin, waiting = waiting[:free], waiting[free:]
            if len(begin):
                self._begin(begin)
                yield from self._report()
                continue
            if not self._runs.active.any():
                return
            yield from self._make_server_steps()
            self._dispatcher.retry_with_fewer_lanes(self._dispatcher.launch)
            # The host reports and prepares while the lanes are busy.
            yield from self._report()
            if self._by_products is not None:
                self._by_products.prepare()
            if (done := self._dispatcher.collect()) is not None:
                self._reporter.add_local_steps(done)

    def _begin(self, runs: Ints) -> None:
        """Begin these runs, from their initial model or where they were interrupted."""
        table, new, resumed = self._runs, list[NewVersions](), list[NewVersions]()
        self._dispatcher.retry_with_fewer_lanes(partial(table.models.reserve, len(runs)))
        for run in runs.tolist():
            aggregator = table.aggregators[run]
            table.add_jobs(run)
            if aggregator.resume_point is not None:
                resumed.append(self._resume(run, aggregator.resume_point))
                aggregator.resume_point = None
                continue
            rows = table.models.store(aggregator.initial[None])
            table.server[run] = rows[0]
            table.clients.open(run, int(rows[0]))
            new.append(NewVersions(run, NO_INDICES, rows))
        table.active[runs] = True
        if new:
            self._dispatcher.dispatch(new)
        self._reporter.add([*new, *resumed], {})

    def _resume(self, run: int, point: ResumePoint) -> NewVersions:
        """Begin a run where it was interrupted."""
        table, (snapshot, jobs, start) = self._runs, point
        models = to_device(snapshot.models, table.aggregators[run].initial)
        rows = self._dispatcher.retry_with_fewer_lanes(partial(table.models.store, models))
        server = rows[[snapshot.server]]
        table.models.retain(server)
        table.server[run], table.version[run] = server[0], snapshot.version
        table.clients.restore(run, snapshot.held, rows)
        self._dispatcher.resume(run, jobs, rows[start])
        table.models.release(rows)
        return NewVersions(run, NO_INDICES, server)

    def _make_server_steps(self) -> Iterator[RunEvent]:
        """Make all server steps whose client updates are in, until there are none."""
        table = self._runs
        while len(runs := self._runs_to_update()):
            if self._reporter.waits_for(runs):  # before the next version replaces the last one
                yield from self._report()
                continue  # without the runs that are over
            refused: dict[int, Ints] = {}
            if table.any_non_finite:
                yield from self._refuse(runs, refused)
                runs = runs[table.active[runs]]
            updater = {run: self._updater(run, refused) for run in runs.tolist()}
            new = []
            for how in dict.fromkeys(updater.values()):
                new += how.update([run for run in updater if updater[run] is how])
            if new:
                self._advance(new, refused)

    def _runs_to_update(self) -> Ints:
        """Runs whose next client updates are all in."""
        table = self._runs
        for run in self._growing:
            if table.active[run]:
                self._dispatcher.learn(run)
        return np.flatnonzero(table.active & (table.missing == 0))

    def _refuse(self, runs: Ints, refused: dict[int, Ints]) -> Iterator[RunEvent]:
        """Find client updates that must not be used; some runs end with them."""
        for run in runs.tolist():
            aggregator, finite = self._runs.aggregators[run], self._runs.jobs.finite
            jobs = aggregator.timeline.jobs(aggregator.version + 1)
            is_finite = finite[self._runs.next_jobs[run]]
            try:
                refused[run] = aggregator.refuse(jobs, is_finite, self._runs.server_model(run))
            except NonFiniteUpdate as error:
                yield self._reporter.event(run, error)
                self._close(run)

    def _updater(self, run: int, refused: Mapping[int, Ints]) -> Updater:
        """The fastest way to make the next server step of a run."""
        products, distances, table = self._by_products, self._by_distances, self._runs
        # Weights are those of all client updates, so none may be left out.
        if (
            products is not None
            and products.supports[run]
            and not len(refused.get(run, NO_INDICES))
        ):
            return products
        if distances is not None and table.aggregators[run].by_distances:
            return self._one_by_one if table.any_non_finite else distances
        return self._one_by_one

    def _advance(self, new: Sequence[NewVersions], refused: Mapping[int, Ints]) -> None:
        """Free what the server steps have used, and let jobs begin from the new versions."""
        self._dispatcher.use(np.concatenate([versions.jobs for versions in new]))
        self._runs.advance(new, refused)
        self._dispatcher.dispatch(new)
        self._runs.models.release(np.concatenate([versions.rows[:-1] for versions in new]))
        self._reporter.add(new, refused)

    def _report(self) -> Iterator[RunEvent]:
        """Report new versions, and close the runs that are over."""
        for event in self._reporter.events():
            yield event
            if self._runs.aggregators[event.run].over:
                self._close(event.run)

    def _close(self, run: int) -> None:
        """End a run."""
        self._dispatcher.close(run)
        self._runs.close(run)
