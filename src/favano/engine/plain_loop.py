"""The plain loop, the oracle: one update after the other, each trained when it is due.

It shares the rules of a run (`aggregator`) with the engine, and nothing else: here every client
simply refers to its model, and Python frees those that nobody refers to.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import inf
from typing import NamedTuple

import numpy as np
import torch

from favano.aggregation.aggregator import NOBODY, Aggregator, Update
from favano.aggregation.snapshot import Beginning, Earlier, Held, Snapshot, Waiting
from favano.engine.moment import NOTHING, Moment
from favano.engine.spread import Spread, spread_of
from favano.gates import finite_rows
from favano.methods.method import S
from favano.training import Trainer, to_device
from favano.types import Ints, Stack, Vector


class _Earlier(NamedTuple):
    """What a client holds until it begins a job whose model exists already."""

    client: int
    base: int  # version that the job starts from
    until: float
    model: Vector
    version: int
    reading: int  # its order among those behind a codec; 0: as the server has it


class PlainLoop:
    """One run, trained client by client."""

    def __init__(self, run: Aggregator[S], trainer: Trainer) -> None:
        self._run, self._trainer = run, trainer
        self._server = run.initial
        self._clients = run.schedule.clients
        self._held = [run.initial] * self._clients
        self._version = [-1] * self._clients  # that each client holds
        self._own: dict[int, None] = {}  # clients with a model of their own, in order
        # Clients that read their version behind a codec, and in which order they did.
        self._read: dict[int, int] = {}
        self._readings = 0
        self._earlier: list[_Earlier] = []  # in the order in which the jobs begin
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
        earlier, clients = self._earlier, self._clients
        models = [
            *(self._server, *self._held),
            *(entry.model for entry in earlier),
            *self._starts.values(),
        ]
        distinct = {id(model): model for model in models}
        places = {model: place for place, model in enumerate(distinct)}
        place = np.array([places[id(model)] for model in models])
        own, apart = np.zeros(clients, np.bool_), np.zeros(clients, np.int64)
        own[list(self._own)] = True
        apart[list(self._read)] = list(self._read.values())
        apart[list(self._own)] = 1 + self._readings + np.arange(len(self._own))
        held, before, starts = np.split(place[1:], [clients, clients + len(earlier)])
        columns = (
            [entry.client for entry in earlier],
            [entry.base for entry in earlier],
            before,
            [entry.version for entry in earlier],
            [entry.reading for entry in earlier],
        )
        begun_later = Earlier(*(np.array(column, dtype=np.int64) for column in columns))
        return Snapshot(
            version=run.version,
            models=torch.stack(list(distinct.values())).numpy(force=True),
            server=0,
            held=Held(held, np.array(self._version), own, apart, begun_later),
            waiting=Waiting(known.client[jobs], known.base[jobs], starts),
            memory=run.memory_now(),
        )

    def _go_on(self, beginning: Beginning) -> None:
        """Begin in the middle."""
        snapshot, jobs, places, until = beginning
        held, earlier = snapshot.held, snapshot.held.earlier
        models = to_device(snapshot.models, self._run.initial).unbind()
        self._server = models[snapshot.server]
        self._held = [models[place] for place in held.place.tolist()]
        self._version = held.version.tolist()
        single = np.argsort(held.apart)[np.count_nonzero(held.apart == 0) :]
        read = single[~held.own[single]]
        self._read = dict(zip(read.tolist(), held.apart[read].tolist(), strict=True))
        self._own = dict.fromkeys(single[held.own[single]].tolist())
        self._readings = int(max(held.apart.max(), earlier.apart.max(initial=0)))
        entries = zip(
            *(earlier.client.tolist(), earlier.base.tolist(), until.tolist()),
            *([models[place] for place in earlier.place.tolist()], earlier.version.tolist()),
            earlier.apart.tolist(),
            strict=True,
        )
        self._earlier = [_Earlier(*entry) for entry in entries]
        starts = zip(jobs.tolist(), places.tolist(), strict=True)
        self._starts = {job: models[place] for job, place in starts}

    def _renew(self, update: Update) -> None:
        """Take over the results of an update."""
        self._server, self._refused = update.server, update.refused
        now = self._run.course.time(self._run.version)
        self._earlier = [entry for entry in self._earlier if entry.until > now]
        if update.own is not None:
            for client, model in zip(update.clients.tolist(), update.own, strict=True):
                self._own[client], self._held[client] = None, model
                self._read.pop(client, None)
                self._earlier = [entry for entry in self._earlier if entry.client != client]
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
        known, behind_codec = run.course.known, set(packed.tolist())
        now = 0.0 if version < 0 else run.course.time(version)
        for job, client in zip(jobs.tolist(), known.client[jobs].tolist(), strict=True):
            if client not in self._own:
                self._hold_until(client, float(known.begin[job]), now)
                self._held[client] = read[client] if job in behind_codec else self._server
                self._version[client] = version
            self._starts[job] = self._held[client]
        for client in known.client[jobs].tolist():
            self._read.pop(client, None)
        for client in read:
            self._readings += 1
            self._read[client] = self._readings

    def _hold_until(self, client: int, begin: float, now: float) -> None:
        """A client holds what it has until it begins a job from the newest version."""
        version, new = self._version[client], self._run.version
        if begin > now and version != new:
            before = self._held[client], version, self._read.get(client, 0)
            self._earlier.append(_Earlier(client, new, begin, *before))

    def _at(self, time: float) -> dict[int, _Earlier]:
        """The clients that hold an earlier model at a time."""
        later = (entry for entry in reversed(self._earlier) if entry.until > time)
        return {entry.client: entry for entry in later}

    @property
    def changing(self) -> bool:
        """Whether clients begin jobs before the next update."""
        return bool(self._earlier)

    def of(self, client: Ints, time: float = inf) -> Stack:
        """The models that these clients hold."""
        earlier = {who: entry.model for who, entry in self._at(time).items()}
        return self._stacked([earlier.get(who, self._held[who]) for who in client.tolist()])

    def spread(
        self, server: Vector, live: Mapping[int, Vector] = NOTHING, time: float = inf
    ) -> Spread:
        """Their distances from a server model."""
        held, version, read = list(self._held), np.array(self._version), dict(self._read)
        for client, entry in self._at(time).items():
            held[client], version[client], read[client] = entry.model, entry.version, entry.reading
        in_order = sorted((order, client) for client, order in read.items() if order)
        single = {client: held[client] for _, client in in_order}
        single |= {client: held[client] for client in self._own}
        single.update(live)
        return spread_of(single, version, held.__getitem__, server, self._run.layout.parameters)

    def _stacked(self, models: list[Vector]) -> Stack:
        return torch.stack(models) if models else self._server.new_empty(0, len(self._server))
