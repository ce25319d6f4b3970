"""What is seen of runs from outside: events, scores and snapshots."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf
from time import perf_counter
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from favano.aggregation.aggregator import NO_INDICES
from favano.aggregation.snapshot import Snapshot, Waiting
from favano.engine.client_models import ClientModelsOfRun
from favano.engine.dispatcher import Dispatcher
from favano.engine.run_table import NewVersions, RunTable
from favano.engine.server_version import Measurement, ServerVersion
from favano.errors import NonFiniteUpdate
from favano.training import StepsDone
from favano.types import Ints, Stack

_PERIOD = 0.5  # seconds after which a version is reported, though nothing is due


class RunEvent(NamedTuple):
    """A new server version of one of the runs, or the error that ended it, or neither."""

    run: int
    event: ServerVersion | NonFiniteUpdate | None  # None: only local steps were made
    steps_done: StepsDone  # by all runs since the last event, also in jobs that are not finished


@dataclass(frozen=True)
class Scoring:
    """Evaluates several runs at once."""

    due: Callable[[int, int], bool]  # whether a version of a run is evaluated
    together: Callable[[int, int], bool]  # and whether this may be done here, with other runs
    score: Callable[[Stack], Tensor]  # (k, size) to (k, 1 + m) loss and metrics
    time: Callable[[int], float] = lambda run: inf  # of a run's next evaluation


class Reporter:
    """Collects what is to be reported, until there is time for it.

    Args:
        runs: state of all runs.
        dispatcher: gives lanes' memory back if it is short.
        scoring: evaluates versions before they are reported; None: every version is reported.
    """

    def __init__(self, runs: RunTable, dispatcher: Dispatcher, scoring: Scoring | None) -> None:
        self._runs, self._within_memory, self._scoring = (
            runs,
            dispatcher.retry_with_fewer_lanes,
            scoring,
        )
        self._pending: dict[int, Ints] = {}  # runs with a version to report, and refused clients
        count = len(runs.aggregators)
        self._reports = np.zeros(count, dtype=np.int64)  # so far, of each run
        self._reported = np.zeros(count)  # when the last of them was
        self._used_steps = np.zeros(count, dtype=np.int64)  # local steps since then
        self._steps_done = StepsDone(0, perf_counter())  # that were not reported yet

    def add_local_steps(self, done: StepsDone) -> None:
        """Lanes have made local steps."""
        self._steps_done = StepsDone(self._steps_done.steps + done.steps, done.at)

    def add(self, new: Sequence[NewVersions], refused: Mapping[int, Ints]) -> None:
        """Runs have new versions, for which updates of some clients were refused."""
        table, jobs = self._runs.jobs, np.concatenate([versions.jobs for versions in new])
        np.add.at(self._used_steps, table.run[jobs], table.steps[jobs])
        self._pending |= {versions.run: refused.get(versions.run, NO_INDICES) for versions in new}

    def waits_for(self, runs: Ints) -> bool:
        """Whether any of these runs has a version that was not reported."""
        return not self._pending.keys().isdisjoint(runs.tolist())

    def events(self) -> Iterator[RunEvent]:
        """The newest versions, where somebody needs them."""
        # Whether a version is evaluated depends on when the next one is made.
        known = {run for run in self._pending if self._runs.aggregators[run].knows_next}
        pending = {run: refused for run, refused in self._pending.items() if run in known}
        self._pending = {run: at for run, at in self._pending.items() if run not in known}
        measured, now = self._measured(list(pending)), perf_counter()
        for run, refused in pending.items():
            if not (run in measured or len(refused) or self._is_needed(run, now)):
                continue
            version, server = self._runs.aggregators[run].version, self._runs.server_model(run)
            clients = ClientModelsOfRun(self._runs.clients, run, self._runs.layout.parameters)
            snapshot, steps = partial(self._snapshot, run), int(self._used_steps[run])
            self._reported[run], self._used_steps[run] = now, 0
            self._reports[run] += 1
            together = (measured[run],) if run in measured else ()
            seen = (version, server, refused, clients, snapshot, steps, together)
            yield self.event(run, ServerVersion(*seen))

    def event(self, run: int, event: ServerVersion | NonFiniteUpdate) -> RunEvent:
        """An event, with the steps that were made since the last one."""
        done, self._steps_done = self._steps_done, self._steps_done._replace(steps=0)
        return RunEvent(run, event, done)

    def _is_needed(self, run: int, now: float) -> bool:
        """Whether a version is reported for an evaluation, a checkpoint or the display.

        The first version shows when a run has begun, the second how fast it is.
        """
        scoring, aggregator = self._scoring, self._runs.aggregators[run]
        if scoring is None or self._reports[run] < 2 or now > self._reported[run] + _PERIOD:
            return True
        return aggregator.over or aggregator.nearly_over or scoring.due(run, aggregator.version)

    def _measured(self, runs: Sequence[int]) -> dict[int, Measurement]:
        """Measurements of the runs that are evaluated together."""
        state, scoring = self._runs, self._scoring
        if scoring is None:
            return {}
        due = [run for run in runs if scoring.together(run, int(state.version[run]))]

        def measure() -> list[Measurement]:
            servers, parameters = (
                state.models.take(state.server[due]).clone(),
                state.layout.parameters,
            )
            times = [scoring.time(run) for run in due]
            distances, means = state.clients.spreads(np.array(due), times, servers, parameters)
            numbers = torch.cat([scoring.score(servers), distances], dim=1)
            return [Measurement(*row) for row in zip(numbers, servers, means, strict=True)]

        return dict(zip(due, self._within_memory(measure), strict=True)) if due else {}

    def _snapshot(self, run: int) -> Snapshot:
        """The run as it is now; only while its event is handled."""
        state, table, aggregator = self._runs, self._runs.jobs, self._runs.aggregators[run]
        jobs = table.of(run)
        jobs = jobs[table.start[jobs] >= 0]
        later, version, later_rows = state.clients.to_begin(run)
        held = state.clients.row[slice(*state.clients.first[run : run + 2])]
        rows = np.concatenate([state.server[[run]], held, table.start[jobs], later_rows])
        distinct, place = np.unique(rows, return_inverse=True)
        models = state.models.take(distinct)
        client = np.append(table.client_in_run[jobs], later)
        start_version = np.append(table.start_version[jobs], version)
        return Snapshot(
            version=aggregator.version,
            models=(models if len(distinct) > 1 else models.clone()).numpy(force=True),
            server=int(place[0]),
            held=state.clients.saved(run, place[1 : 1 + len(held)]),
            waiting=Waiting(client, start_version, place[1 + len(held) :]),
            memory=aggregator.memory_now(),
        )
