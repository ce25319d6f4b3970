"""Runs as programs: the device goes from wave to wave, and the host never decides anything.

The host lists all that is to be done (`wave_table`), computes the weights of a chunk's versions
while the device is busy with the chunk before, and reports the versions of a chunk when it has
ended. A run whose models are not finite is left to the engine of lanes, which knows what to do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from favano.aggregation.aggregator import NO_INDICES, Aggregator
from favano.aggregation.snapshot import Snapshot, Waiting
from favano.engine.model_digests import model_digest
from favano.engine.products import WeightCache, unit_updates
from favano.engine.program import RunProgram
from favano.engine.reporter import RunEvent
from favano.engine.server_version import NOTHING, LiveModels, Measurement, ServerVersion
from favano.engine.spread import ModelSpread, padded, spread_of, spreads_in_parts
from favano.engine.wave_table import Report, make_table
from favano.methods import State
from favano.schedule import Schedule
from favano.training import (
    EventClock,
    JobTrainer,
    StepsDone,
    Work,
    aligned,
    event_now,
    sum_rows,
    term_table,
    to_device,
)
from favano.types import Ints, Stack, Vector


class _Launched(NamedTuple):
    """A chunk whose work is queued."""

    reports: list[Report]
    states: list[State]  # of the methods, at the versions that are reported
    measured: list[Measurement]  # of all these versions, one after the other
    copies: Stack | None  # of the server models that they are of, on the host
    wrong: Tensor  # (R,) whether a model of a run was not finite
    steps: int
    arrived: torch.cuda.Event | None


class WaveEngine:
    """Runs of linear methods, whose schedules are known.

    Args:
        runs: one aggregator per run, of models of one size.
        programs: of these runs.
        trainer: trains the jobs; the task of a job is the number of its run.
        score: (k, size) to (k, 1 + m) loss and metrics.
    """

    def __init__(
        self,
        runs: Sequence[Aggregator[State]],
        programs: Sequence[RunProgram],
        trainer: JobTrainer,
        score: Callable[[Stack], Tensor],
    ) -> None:
        self._runs, self._trainer, self._score = runs, trainer, score
        self._programs = programs
        pairs = enumerate(zip(runs, programs, strict=True))
        orders = [trainer.orders(n, _work(run, program.jobs)) for n, (run, program) in pairs]
        steps = [run.schedule.steps for run in runs]
        self._table = make_table(self._programs, steps, orders, trainer.orders_at_once)
        self._caches = [WeightCache(run.method, with_buffers=False) for run in runs]
        self._states = [run.state for run in runs]
        # Lists, since single entries are read.
        self._offsets = [run.schedule.offsets.tolist() for run in runs]
        self._rates = [run.rates for run in runs]
        self._used = [_steps_used(run.schedule) for run in runs]
        self.failed = np.zeros(len(runs), np.bool_)  # runs with a model that is not finite

    @property
    def rows(self) -> int:
        """Models in memory."""
        return self._table.rows

    def events(self) -> Iterator[RunEvent]:
        """The reported versions of all runs, each run's in order, but for runs that failed."""
        self._load()
        with ThreadPoolExecutor(1, "digests") as hashing:  # which needs no Python
            yield from self._report(self._launch(0), hashing)
            before = None
            for chunk in range(1, len(self._table.reports)):
                launched = self._launch(chunk)
                if before is not None:
                    yield from self._report(before, hashing)
                before = launched
            if before is not None:
                yield from self._report(before, hashing)

    def _load(self) -> None:
        """Copy everything that is known to the device."""
        table, like = self._table, self._runs[0].initial
        size = len(like)
        width = aligned(size) if like.is_cuda else size
        self._rows = like.new_empty(table.rows, width)[:, :size]
        points = [run.resume_point for run in self._runs]
        given = [
            run.initial[None] if point is None else to_device(point.snapshot.models, like)
            for run, point in zip(self._runs, points, strict=True)
        ]
        self._rows[to_device(table.given, like)] = torch.cat(given)
        self._versions, self._own = (
            term_table(
                sums.run, sums.row, sums.first, sums.terms, sums.weights, sums.segments, like
            )
            for sums in (table.versions, table.own)
        )
        stream = torch.cuda.current_stream(like.device) if like.is_cuda else None
        self._clock = EventClock(stream)
        self._wrong = torch.zeros(len(self._runs), dtype=torch.int32, device=like.device)
        task, number, start, end = table.jobs
        by_run = np.argsort(task, kind="stable")
        numbers = np.split(number[by_run], np.cumsum(np.bincount(task, minlength=len(points)))[:-1])
        parts = [_work(run, jobs) for run, jobs in zip(self._runs, numbers, strict=True)]
        order = np.argsort(by_run, kind="stable")
        client, first, steps, rate = (
            np.concatenate([getattr(part, name) for part in parts])[order]
            for name in ("client", "first_step", "steps", "rate")
        )
        self._steps = np.cumsum([0, *steps])
        self._trainer.load(start, end, task, Work(client, first, steps, rate))

    def _launch(self, chunk: int) -> _Launched:
        """Queue the work of a chunk."""
        table = self._table
        first, last = table.chunks[chunk : chunk + 2].tolist()
        jobs = table.waves[[first, last]].tolist()
        wanted = {(report.run, report.version) for report in table.reports[chunk]}
        states = {key: self._states[key[0]] for key in wanted}
        self._weigh(first, last, states)
        if jobs[0] < jobs[1]:
            self._trainer.draw(*jobs)
        waves = table.waves[first : last + 1].tolist()
        versions, own = (s.waves[first : last + 1].tolist() for s in (table.versions, table.own))
        for wave in range(last - first):
            self._trainer.train(self._rows, waves[wave], waves[wave + 1])
            sum_rows(self._rows, self._versions, versions[wave], versions[wave + 1], self._wrong)
            sum_rows(self._rows, self._own, own[wave], own[wave + 1], self._wrong)
        reports = table.reports[chunk]
        steps = int(self._steps[jobs[1]] - self._steps[jobs[0]])
        return _Launched(
            reports,
            [states[report.run, report.version] for report in reports],
            *self._measured(reports),
            self._wrong.to("cpu", non_blocking=True),
            steps,
            event_now() if self._rows.is_cuda else None,
        )

    def _weigh(self, first: int, last: int, states: dict[tuple[int, int], State]) -> None:
        """Compute the weights of the versions of these waves; note states after some of them."""
        sums = self._table.versions
        begin, end = sums.segments[sums.waves[[first, last]]].tolist()
        weights = []
        pairs = zip(sums.run[begin:end].tolist(), sums.version[begin:end].tolist(), strict=True)
        for run, version in pairs:
            plan, rates = self._runs[run].schedule, self._rates[run]
            some = slice(*self._offsets[run][version : version + 2])
            stale = version - 1 - plan.start_version[some]
            about = plan.client[some], plan.steps[some], stale, rates[some], version
            self._states[run], made = self._caches[run](self._states[run], unit_updates(*about))
            weights.append(made.server)
            if (run, version) in states:
                states[run, version] = self._states[run]
        if weights:
            place = slice(*sums.first[[begin, end]].tolist())
            self._versions.weights[place] = to_device(
                np.concatenate(weights), self._versions.weights
            ).to(self._rows.dtype)

    def _measured(self, reports: Sequence[Report]) -> tuple[list[Measurement], Stack | None]:
        """The evaluations of these versions, and copies of the server models on the host."""
        held = [held for report in reports for held in report.held]
        if not held:
            return [], None
        rows = np.array([report.server for report in reports for _ in report.held])
        servers, size = self._taken(rows), self._rows.shape[1]
        distances, means = spreads_in_parts(self._taken, *padded(held), servers, size)
        numbers = torch.cat([self._score(servers), distances], dim=1)
        copies = servers.to("cpu", non_blocking=True) if servers.is_cuda else servers
        return [*map(Measurement, numbers, servers, means)], copies

    def _taken(self, rows: Ints) -> Stack:
        """Models, (*rows.shape, size)."""
        return self._rows[to_device(rows, self._rows)]

    def _report(self, chunk: _Launched, hashing: ThreadPoolExecutor) -> Iterator[RunEvent]:
        """The versions of a chunk, once it has ended."""
        if chunk.arrived is not None:
            chunk.arrived.synchronize()
        self.failed |= chunk.wrong.numpy() > 0
        done = StepsDone(chunk.steps, self._clock.time(chunk.arrived))
        measured, copies = iter(chunk.measured), iter(() if chunk.copies is None else chunk.copies)
        for report, state in zip(chunk.reports, chunk.states, strict=True):
            run, version = report.run, report.version
            aggregator, here = self._runs[run], list(islice(measured, len(report.held)))
            hosts = list(islice(copies, len(here)))
            if self.failed[run] or aggregator.stopped:
                continue
            evaluated = [
                each._replace(digest=hashing.submit(model_digest, host))
                for each, host in zip(here, hosts, strict=True)
            ]
            steps = self._used[run][version + 1] - self._used[run][aggregator.version + 1]
            aggregator.version, aggregator.state = version, state
            clients = _Clients(self._programs[run], self._table.row[run], version, self._rows)
            server, snapshot = self._rows[report.server], partial(self._snapshot, run, version)
            event = version, server, NO_INDICES, clients, snapshot, steps, evaluated
            yield RunEvent(run, ServerVersion(*event), done)
            done = done._replace(steps=0)
        if done.steps:
            yield RunEvent(0, None, done)

    def _snapshot(self, run: int, version: int) -> Snapshot:
        """A run at a version that was reported just now."""
        aggregator, program, row = self._runs[run], self._programs[run], self._table.row[run]
        held, (jobs, starts) = program.clients.at(version), program.clients.waiting(version)
        numbers = np.concatenate([[program.model(version)], held, starts])
        distinct, place = np.unique(row[numbers], return_inverse=True)
        plan, clients = aggregator.schedule, len(held)
        return Snapshot(
            version=version,
            models=self._taken(distinct).numpy(force=True),
            server=int(place[0]),
            held=program.clients.saved(version, place[1 : 1 + clients]),
            waiting=Waiting(plan.client[jobs], plan.start_version[jobs], place[1 + clients :]),
            memory=aggregator.memory_now(),
        )


@dataclass(frozen=True)
class _Clients:
    """The models that the clients of a run hold at a version."""

    program: RunProgram
    row: Ints
    version: int
    models: Stack
    changing = False

    def of(self, client: Ints, time: float = np.inf) -> Stack:
        """The models of these clients."""
        rows = self.row[self.program.clients.at(self.version, time)[client]]
        return self.models[to_device(rows, self.models)]

    def spread(
        self, server: Vector, live: LiveModels = NOTHING, time: float = np.inf
    ) -> ModelSpread:
        """Their distances from a server model."""
        held = self.program.clients.at(self.version, time)
        _, shared = np.unique(held, return_inverse=True)
        rows = self.row[held].tolist()
        return spread_of(live, shared, lambda who: self.models[rows[who]], server, len(server))


def _steps_used(plan: Schedule) -> list[int]:
    """(V + 1,) local steps that were used before each server step."""
    used = np.append(0, np.cumsum(plan.steps[: plan.jobs]))
    return [int(steps) for steps in used[plan.offsets]]


def _work(run: Aggregator[State], jobs: Ints) -> Work:
    plan = run.schedule
    return Work(plan.client[jobs], plan.first_step[jobs], plan.steps[jobs], run.rates[jobs])
