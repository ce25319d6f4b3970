"""The plain loop, the oracle: one update after the other, each trained when it is due.

It shares the rules of a run (`aggregator`) with the engine, and nothing else: here every client
simply refers to its model, and Python frees those that nobody refers to.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import torch

from favano.aggregation.aggregator import NOBODY, Aggregator, Update
from favano.aggregation.snapshot import Beginning, Held, Snapshot, Waiting
from favano.engine.moment import NOTHING, Moment
from favano.engine.spread import Spread, spread_of
from favano.gates import finite_rows
from favano.methods.method import S
from favano.training import Trainer, to_device
from favano.types import Ints, Stack, Vector


class PlainLoop:
    """One run, trained client by client."""

    def __init__(self, run: Aggregator[S], trainer: Trainer) -> None:
        self._run, self._trainer = run, trainer
        self._server = run.initial
        self._clients = run.schedule.clients
        self._held = [run.initial] * self._clients
        self._version = [-1] * self._clients  # that each client holds
        self._own: dict[int, None] = {}  # clients with a model of their own, in order
        self._read: dict[int, None] = {}  # clients that read their version behind a codec, in order
        self._starts: dict[int, Vector] = {}  # of jobs that are not used yet

    def moments(self) -> Iterator[Moment]:
        """All server versions, one after the other."""
        run = self._run
        if run.beginning is None:
            self._begin()
        else:
            self._go_on(run.beginning)
            run.beginning = None
        yield Moment(run.version, self._server, NOBODY, self, self.snapshot)
        while not run.over:
            jobs = run.course.jobs(run.version + 1)
            work = run.work(jobs)
            start = self._stacked([self._starts.pop(job) for job in jobs.tolist()])
            end = self._trainer.train(run.starts(work.client, start), work)
            finite = np.array(finite_rows(end), dtype=np.bool_)
            if run.memory:
                jobs_done = zip(work.client.tolist(), work.steps.tolist(), end, finite, strict=True)
                for client, steps, model, good in jobs_done:
                    run.remember(client, model[run.layout.size :] if good else None, steps)
            self._renew(run.update(self._server, start, end[:, : run.layout.size], finite))
            steps = int(work.steps.sum())
            yield Moment(run.version, self._server, self._refused, self, self.snapshot, steps)

    def snapshot(self) -> Snapshot:
        """The run as it is now."""
        run, known = self._run, self._run.course.known
        jobs = np.array(list(self._starts), dtype=np.int64)
        models = [self._server, *self._held, *self._starts.values()]
        distinct = {id(model): model for model in models}
        places = {model: place for place, model in enumerate(distinct)}
        place = np.array([places[id(model)] for model in models])
        own, apart = np.zeros(self._clients, np.bool_), np.zeros(self._clients, np.int64)
        own[list(self._own)] = True
        single = [*self._read, *self._own]
        apart[single] = 1 + np.arange(len(single))
        held, starts = place[1 : 1 + self._clients], place[1 + self._clients :]
        return Snapshot(
            version=run.version,
            models=torch.stack(list(distinct.values())).numpy(force=True),
            server=0,
            held=Held(held, np.array(self._version), own, apart),
            waiting=Waiting(known.client[jobs], known.base[jobs], starts),
            memory=run.memory_now(),
        )

    def _go_on(self, beginning: Beginning) -> None:
        """Begin in the middle."""
        snapshot, jobs, places = beginning
        held = snapshot.held
        models = to_device(snapshot.models, self._run.initial).unbind()
        self._server = models[snapshot.server]
        self._held = [models[place] for place in held.place.tolist()]
        self._version = held.version.tolist()
        single = np.argsort(held.apart)[np.count_nonzero(held.apart == 0) :]
        self._read = dict.fromkeys(single[~held.own[single]].tolist())
        self._own = dict.fromkeys(single[held.own[single]].tolist())
        starts = zip(jobs.tolist(), places.tolist(), strict=True)
        self._starts = {job: models[place] for job, place in starts}

    def _renew(self, update: Update) -> None:
        """Take over the results of an update."""
        self._server, self._refused = update.server, update.refused
        if update.own is not None:
            for client, model in zip(update.clients.tolist(), update.own, strict=True):
                self._own[client], self._held[client] = None, model
                self._read.pop(client, None)
        for client in update.refused.tolist():
            self._own.pop(client, None)
        self._begin()

    def _begin(self) -> None:
        """Jobs begin from the newest version, or from their client's own model."""
        run, version = self._run, self._run.version
        jobs, packed = run.course.begun(version), NOBODY
        read: Mapping[int, Vector] = NOTHING
        if run.link is not None:
            jobs = run.link.in_order(jobs)
            packed = jobs[~run.link.whole(jobs, version)]
            readers = set(run.course.known.client[packed].tolist())
            who = sorted(readers.difference(self._own))
            last = [self._held[client] for client in who]
            read = run.link.hand_out(version, self._server, who, last)
        clients, behind_codec = run.course.known.client[jobs].tolist(), set(packed.tolist())
        for client in clients:
            self._read.pop(client, None)
        self._read.update(dict.fromkeys(read))
        for job, client in zip(jobs.tolist(), clients, strict=True):
            if client not in self._own:
                self._held[client] = read[client] if job in behind_codec else self._server
                self._version[client] = version
            self._starts[job] = self._held[client]

    def of(self, client: Ints) -> Stack:
        """The models that these clients hold."""
        return self._stacked([self._held[one] for one in client.tolist()])

    def spread(self, server: Vector, live: Mapping[int, Vector] = NOTHING) -> Spread:
        """Their distances from a server model."""
        single = {client: self._held[client] for client in (*self._read, *self._own)}
        single.update(live)
        version, parameters = np.array(self._version), self._run.layout.parameters
        return spread_of(single, version, self._held.__getitem__, server, parameters)

    def _stacked(self, models: list[Vector]) -> Stack:
        return torch.stack(models) if models else self._server.new_empty(0, len(self._server))
