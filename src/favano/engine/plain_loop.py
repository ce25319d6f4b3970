"""The plain loop, the oracle: one update after the other, each trained when it is due.

It shares the rules of a run (`aggregator`) with the engine, and nothing else: here every client
simply refers to the model of the last job that it has begun, and Python frees those that nobody
refers to.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import inf
from typing import NamedTuple

import numpy as np
import torch

from favano.aggregation.aggregator import NO_INDICES, Aggregator, Update
from favano.aggregation.snapshot import Held, ResumePoint, Snapshot, Waiting
from favano.engine.server_version import NOTHING, LiveModels, ServerVersion
from favano.engine.spread import ModelSpread, spread_of
from favano.methods.method import S
from favano.screening import finite_rows
from favano.training import Trainer, Work, to_device
from favano.types import Ints, Mask, Stack, Vector


class _Held(NamedTuple):
    """What clients hold: the models of the last jobs that they have begun."""

    model: list[Vector]
    version: list[int]
    read: dict[int, None]  # clients that read their version behind a codec, in order


class PlainLoop:
    """One run, trained client by client."""

    def __init__(self, run: Aggregator[S], trainer: Trainer) -> None:
        self._run, self._trainer = run, trainer
        self._server = run.initial
        self._clients = run.schedule.clients
        self._held = _Held([run.initial] * self._clients, [-1] * self._clients, {})
        self._own: dict[int, None] = {}  # clients with a model of their own, in order
        self._starts: dict[int, Vector] = {}  # of jobs that are not used yet
        self._later: dict[int, Vector] = {}  # of jobs that have not begun
        self._ends: dict[int, Vector] = {}  # of jobs whose values the policy has seen
        self._known = self._dropped = 0  # jobs of a timeline that grows: begun, or not to be used

    def events(self) -> Iterator[ServerVersion]:
        """All server versions, one after the other."""
        run = self._run
        if run.resume_point is None:
            self._begin()
        else:
            self._resume(run.resume_point)
            run.resume_point = None
        self._learn()
        yield ServerVersion(run.version, self._server, NO_INDICES, self, self.snapshot)
        while not run.over:
            jobs = run.timeline.jobs(run.version + 1)
            work = run.work(jobs)
            start = self._stacked([self._starts[job] for job in jobs.tolist()])
            end = self._trained(jobs, work, start)
            for job in jobs.tolist():
                del self._starts[job]
            finite = np.array(finite_rows(end), dtype=np.bool_)
            finite = run.finite_as_sent(jobs, start, end[:, : run.layout.size], finite)
            if run.memory.vectors:
                jobs_done = zip(work.client.tolist(), work.steps.tolist(), end, finite, strict=True)
                for client, steps, model, good in jobs_done:
                    run.memory.remember(client, model[run.layout.size :] if good else None, steps)
            self._renew(run.update(self._server, start, end[:, : run.layout.size], finite))
            self._learn()
            event = run.version, self._server, self._refused, self, self.snapshot
            yield ServerVersion(*event, int(work.steps.sum()))

    def _trained(self, jobs: Ints, work: Work, start: Stack) -> Stack:
        """End models of the jobs of an update."""
        if self._run.clock is None:
            return self._trainer.train(self._run.memory.starts(work.client, start), work)
        for job in jobs.tolist():
            if job not in self._ends:  # it was trained before the run was interrupted
                self._train(job)
        return self._stacked([self._ends.pop(job) for job in jobs.tolist()])

    def _train(self, job: int) -> float:
        """Train one job of a run that grows; returns its loss, if the policy sees it."""
        run, start, losses = self._run, self._starts[job][None], np.full(1, np.nan)
        assert run.clock is not None
        work = run.work(np.array([job]))
        if "loss" in run.clock.sees:
            work = replace(work, losses=losses)
        (self._ends[job],) = self._trainer.train(run.memory.starts(work.client, start), work)
        return float(losses[0])

    def _learn(self) -> None:
        """Train what the clock waits for, until the next update is known."""
        run, parameters = self._run, self._run.layout.parameters
        while run.clock is not None and not run.knows_next:
            job = run.clock.awaited
            assert job is not None
            loss = self._train(job)
            models = self._server, self._starts[job], self._ends[job]
            run.learn(loss, *(model[:parameters] for model in models))
            for dropped in run.timeline.dropped[self._dropped :]:
                for kept in (self._starts, self._later, self._ends):
                    kept.pop(dropped, None)
            self._dropped = len(run.timeline.dropped)
            self._begin()

    def snapshot(self) -> Snapshot:
        """The run as it is now."""
        run, known = self._run, self._run.timeline.known
        jobs = np.array(list(self._starts), dtype=np.int64)
        models = [self._server, *self._held.model, *self._starts.values()]
        distinct = {id(model): model for model in models}
        places = {model: place for place, model in enumerate(distinct)}
        place = np.array([places[id(model)] for model in models])
        own, apart = np.zeros(self._clients, np.bool_), np.zeros(self._clients, np.int64)
        own[list(self._own)] = True
        single = [*self._held.read, *self._own]
        apart[single] = 1 + np.arange(len(single))
        held, starts = place[1 : 1 + self._clients], place[1 + self._clients :]
        return Snapshot(
            version=run.version,
            models=torch.stack(list(distinct.values())).numpy(force=True),
            server=0,
            held=Held(held, np.array(self._held.version), own, apart),
            waiting=Waiting(known.client[jobs], known.start_version[jobs], starts),
            memory=run.memory_now(),
        )

    def _resume(self, beginning: ResumePoint) -> None:
        """Begin in the middle."""
        snapshot, jobs, places = beginning
        held, begin = snapshot.held, self._run.timeline.known.begin
        models = to_device(snapshot.models, self._run.initial).unbind()
        self._server = models[snapshot.server]
        single = np.argsort(held.apart)[np.count_nonzero(held.apart == 0) :]
        self._held = _Held(
            [models[place] for place in held.place.tolist()],
            held.version.tolist(),
            dict.fromkeys(single[~held.own[single]].tolist()),
        )
        self._own = dict.fromkeys(single[held.own[single]].tolist())
        starts = zip(jobs.tolist(), places.tolist(), strict=True)
        self._starts = {job: models[place] for job, place in starts}
        self._later = {job: self._starts[job] for job in jobs[begin[jobs] > self._now].tolist()}
        known = self._run.timeline.known
        self._known = int((known.start_version <= snapshot.version).sum())
        self._dropped = len(self._run.timeline.dropped)

    def _renew(self, update: Update) -> None:
        """Take over the results of an update."""
        self._server, self._refused = update.server, update.refused
        if update.own is not None:
            for client, model in zip(update.clients.tolist(), update.own, strict=True):
                self._own[client], self._held.model[client] = None, model
                self._held.read.pop(client, None)
        self._reach(self._now)
        for client in update.refused.tolist():
            self._own.pop(client, None)
        self._begin()

    def _begin(self) -> None:
        """Jobs get the newest version, or their client's own model; some begin only later."""
        run, version = self._run, self._run.version
        jobs, known = run.timeline.begun(version), run.timeline.known
        if run.clock is not None:
            jobs = jobs[jobs >= self._known]
            self._known += len(jobs)
        read: dict[int, Vector] = {}
        if run.link is not None:
            jobs = run.link.in_order(jobs)
            readers = set(known.client[jobs[self._behind_codec(jobs)]].tolist())
            who = sorted(readers.difference(self._own))
            newest = self._at(inf).model
            read = run.link.hand_out(version, self._server, who, [newest[client] for client in who])
        columns = jobs.tolist(), known.client[jobs].tolist(), self._behind_codec(jobs).tolist()
        for job, client, packed in zip(*columns, strict=True):
            if client in self._own:
                self._starts[job] = self._held.model[client]
            else:
                self._starts[job] = read[client] if packed else self._server
                self._later[job] = self._starts[job]
        self._reach(self._now)

    @property
    def _now(self) -> float:
        """When the newest version was made."""
        version = self._run.version
        return 0.0 if version < 0 else self._run.timeline.time(version)

    def _behind_codec(self, jobs: Ints) -> Mask:
        """Which of these jobs start from a version as their clients read it."""
        link, base = self._run.link, self._run.timeline.known.start_version[jobs]
        return np.zeros(len(jobs), np.bool_) if link is None else ~link.whole(jobs, base)

    def _reach(self, time: float) -> None:
        """Clients begin jobs up to a time."""
        self._held, begin = self._at(time), self._run.timeline.known.begin
        self._later = {job: model for job, model in self._later.items() if begin[job] > time}

    def _at(self, time: float) -> _Held:
        """What clients hold at a time before the next update."""
        model, version, read = list(self._held.model), list(self._held.version), {**self._held.read}
        known, jobs = self._run.timeline.known, np.array(list(self._later), dtype=np.int64)
        jobs = jobs[known.begin[jobs] <= time]
        jobs = jobs[np.argsort(known.begin[jobs], kind="stable")]
        last = dict(zip(known.client[jobs].tolist(), jobs.tolist(), strict=True))
        for client, job in sorted(last.items()):
            if client not in self._own:
                model[client], version[client] = self._later[job], int(known.start_version[job])
                read.pop(client, None)
                if self._behind_codec(np.array([job]))[0]:
                    read[client] = None
        return _Held(model, version, read)

    @property
    def changing(self) -> bool:
        """Whether there are jobs that have not begun."""
        return bool(self._later)

    def of(self, client: Ints, time: float = inf) -> Stack:
        """The models that these clients hold."""
        held = self._at(time).model
        return self._stacked([held[who] for who in client.tolist()])

    def spread(self, server: Vector, live: LiveModels = NOTHING, time: float = inf) -> ModelSpread:
        """Their distances from a server model."""
        held, parameters = self._at(time), self._run.layout.parameters
        single = {client: held.model[client] for client in (*held.read, *self._own)} | {**live}
        version = np.array(held.version)
        return spread_of(single, version, held.model.__getitem__, server, parameters)

    def _stacked(self, models: list[Vector]) -> Stack:
        return torch.stack(models) if models else self._server.new_empty(0, len(self._server))
