"""Which model each client holds: row numbers, shared by clients that hold the same model.

A client holds the model of the last job that it has begun. A job may begin some time after its
model was made; until then its client holds an earlier one.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor

from favano.aggregation.snapshot import Held
from favano.engine.model_rows import ModelRows, last_of_each
from favano.engine.server_version import NOTHING, LiveModels
from favano.engine.spread import ModelSpread, padded, spread_of, spreads_in_parts
from favano.types import Floats, Ints, Mask, Stack, Vector

Decoded: TypeAlias = tuple[Ints, list[Vector]]  # clients, and a version as each decodes it


class _Later(NamedTuple):
    """A job that has its model and has not begun."""

    begin: float
    number: int  # in the order in which jobs got their models
    client: int
    row: int
    version: int
    decodes: bool  # whether its client gets the version through a codec


class Jobs(NamedTuple):
    """Jobs as columns, (k,) each."""

    client: Ints
    row: Ints  # of the model
    version: Ints
    decodes: Mask  # whether its client gets the version through a codec

    def some(self, which: Mask) -> Jobs:
        """Those that are marked."""
        return Jobs(self.client[which], self.row[which], self.version[which], self.decodes[which])


class ClientModels:
    """The models that the clients of all runs hold. Clients are numbered across runs."""

    def __init__(self, rows: ModelRows, clients: Sequence[int]) -> None:
        self.rows = rows
        self.first = np.cumsum([0, *clients])  # (runs + 1,) first client of each run
        total = int(self.first[-1])
        self.row = np.full(total, -1)  # the row that each client holds; -1: none
        self._version = np.full(total, -1)  # the version that each client holds
        self.own = np.zeros(total, dtype=np.bool_)  # clients that continue from their own model
        # When a client got a model that it does not share; 0: it shares a version.
        self._unshared_since = np.zeros(total, dtype=np.int64)
        self._unshared_count = 0
        self._place = np.zeros(total, dtype=np.int64)  # of a client in a list
        self._later: dict[int, list[_Later]] = {}  # heaps, of the runs that have some
        self._numbered = 0

    def open(self, run: int, server: int) -> None:
        """Give the initial model to all clients of a run."""
        self._replace(np.arange(*self.first[run : run + 2]), server)

    def saved(self, run: int, place: Ints) -> Held:
        """Who holds what in a run, with the place of each client's model in a snapshot."""
        clients = slice(*self.first[run : run + 2])
        since, unshared_since = np.unique(self._unshared_since[clients], return_inverse=True)
        unshared_since += since[0] > 0  # 0 stays 0
        return Held(place, self._version[clients].copy(), self.own[clients].copy(), unshared_since)

    def restore(self, run: int, held: Held, rows: Ints) -> None:
        """Give the models in these rows to the clients of a run."""
        clients = slice(*self.first[run : run + 2])
        self._replace(np.arange(clients.start, clients.stop), rows[held.place])
        self._version[clients], self.own[clients] = held.version, held.own
        self._unshared_since[clients] = np.where(
            held.apart > 0, self._unshared_count + held.apart, 0
        )
        self._unshared_count += int(held.apart.max())

    def close(self, run: int) -> None:
        """Give back the models of a run's clients."""
        clients = slice(*self.first[run : run + 2])
        later = np.array([job.row for job in self._later.pop(run, ())], dtype=np.int64)
        self.rows.release(np.append(self.row[clients], later))
        self.row[clients] = -1

    def assign(
        self,
        client: Ints,
        servers: Ints,
        version: Ints,
        begin: Floats,
        now: Floats,
        decoded: Sequence[Decoded] = (),
    ) -> Ints:
        """Jobs get their models: new versions, or their clients' own models. Returns the rows.

        A client that is named more than once begins its jobs in this order. Behind a codec, clients
        read the new versions as other models.
        """
        own, later = self.own[client], begin > now
        starts, read = servers, np.zeros(len(client), np.bool_)
        if own.any():
            starts, later = np.where(own, self.row[client], servers), later & ~own
        if decoded:
            rows_decoded = self._keep(decoded)
            read = rows_decoded[client] >= 0
            starts = np.where(read, rows_decoded[client], starts)
        jobs = Jobs(client, starts, version, read)
        if later.any():
            self.begin_later(jobs.some(later), begin[later])
            own = own | later
        self._hold(jobs.some(~own) if own.any() else jobs)
        if decoded:
            self.rows.release(np.unique(rows_decoded[rows_decoded >= 0]))
        return starts

    def begin_later(self, jobs: Jobs, begin: Floats) -> None:
        """Jobs have their models, and will begin."""
        self.rows.retain(jobs.row)
        run = np.searchsorted(self.first, jobs.client, side="right") - 1
        columns = (column.tolist() for column in (run, begin, *jobs))
        for of, time, *job in zip(*columns, strict=True):
            self._numbered += 1
            heapq.heappush(self._later.setdefault(of, []), _Later(time, self._numbered, *job))

    def advance(self, run: int, now: float) -> None:
        """It is `now` in a run: clients have begun more jobs."""
        later, begun = self._later.get(run, []), []
        while later and later[0].begin <= now:
            begun.append(heapq.heappop(later))
        if not later:
            self._later.pop(run, None)
        if begun:
            jobs = _jobs(begun)
            own = self.own[jobs.client]
            self._hold(jobs.some(~own) if own.any() else jobs)
            self.rows.release(jobs.row)

    def _hold(self, jobs: Jobs) -> None:
        """Clients begin jobs, and hold their models."""
        if not len(jobs.client):
            return
        client, row, version, read = jobs.some(last_of_each(jobs.client, self._place))
        self._replace(client, row)
        self._version[client], self._unshared_since[client] = version, 0
        if read.any():
            self._set_unshared(np.sort(client[read]))

    def keep_own(self, client: Ints, models: Stack) -> None:
        """These clients continue from models of their own."""
        rows = self.rows.store(models)
        self._replace(client, rows)
        self.rows.release(rows)
        self._set_unshared(client[self._unshared_since[client] == 0])
        self.own[client] = True

    def at(self, run: int, time: float = inf) -> tuple[Ints, Ints, Ints]:
        """What each client of a run holds at a time, (n,) each: row, version and order apart."""
        first, end = self.first[run : run + 2].tolist()
        columns = self.row, self._version, self._unshared_since
        row, version, apart = (column[first:end].copy() for column in columns)
        begun = sorted(job for job in self._later.get(run, ()) if job.begin <= time)
        if begun:
            jobs = _jobs(begun)
            last = last_of_each(jobs.client, self._place) & ~self.own[jobs.client]
            client, rows, versions, read = jobs.some(last)
            who = client - first
            row[who], version[who], apart[who] = rows, versions, 0
            readers = np.sort(who[read])
            apart[readers] = self._unshared_count + 1 + np.arange(len(readers))
        return row, version, apart

    def to_begin(self, run: int) -> tuple[Ints, Ints, Ints]:
        """Clients (within the run), versions and rows of jobs that have not begun."""
        jobs = _jobs(self._later.get(run, []))
        return jobs.client - self.first[run], jobs.version, jobs.row

    def changing(self, run: int) -> bool:
        """Whether there are jobs that have not begun."""
        return run in self._later

    def spreads(
        self, runs: Ints, times: Sequence[float], servers: Stack, parameters: int
    ) -> tuple[Tensor, Stack]:
        """Distances of each run's client models from its server model, and the models' means."""
        rows, holders = self._holders(runs, times)
        return spreads_in_parts(self.rows.take, rows, holders, servers, parameters)

    def _holders(self, runs: Ints, times: Sequence[float]) -> tuple[Ints, Ints]:
        """The rows that each run's clients hold, (runs, k), and by how many; by none: padding."""
        held_by = [self.at(run, time)[0] for run, time in zip(runs.tolist(), times, strict=True)]
        return padded([np.unique(held, return_counts=True) for held in held_by])

    def _keep(self, decoded: Sequence[Decoded]) -> Ints:
        """The row of what each client reads; -1 if nothing. Clients that read the same share it."""
        rows = np.full(len(self.row), -1)
        for client, models in decoded:
            distinct = {id(model): model for model in models}
            if distinct:
                kept = self.rows.store(torch.stack(list(distinct.values())))
                row = dict(zip(distinct, kept.tolist(), strict=True))
                rows[client] = [row[id(model)] for model in models]
        return rows

    def _replace(self, client: Ints, rows: Ints | int) -> None:
        """Let clients hold other rows."""
        before = self.row[client]
        self.row[client] = rows
        self.rows.retain(self.row[client])
        self.rows.release(before[before >= 0])

    def _set_unshared(self, client: Ints) -> None:
        self._unshared_since[client] = self._unshared_count + 1 + np.arange(len(client))
        self._unshared_count += len(client)


@dataclass(frozen=True)
class ClientModelsOfRun:
    """The models that the clients of one run hold."""

    client_models: ClientModels
    run: int
    parameters: int

    @property
    def changing(self) -> bool:
        """Whether there are jobs that have not begun."""
        return self.client_models.changing(self.run)

    def of(self, client: Ints, time: float = inf) -> Stack:
        """The models of these clients."""
        held, _, _ = self.client_models.at(self.run, time)
        return self.client_models.rows.take(held[client])

    def spread(self, server: Vector, live: LiveModels = NOTHING, time: float = inf) -> ModelSpread:
        """Their distances from a server model."""
        held, version, since = self.client_models.at(self.run, time)
        own = self.client_models.own[slice(*self.client_models.first[self.run : self.run + 2])]
        apart = np.flatnonzero(since)
        # Sums in the order in which clients got these models, as in the plain loop.
        apart = apart[np.lexsort((since[apart], own[apart]))]
        models = [self.client_models.rows.row(row) for row in held.tolist()]
        single = {client: models[client] for client in apart.tolist()} | {**live}
        return spread_of(single, version, models.__getitem__, server, self.parameters)


def _jobs(later: Sequence[_Later]) -> Jobs:
    columns = np.array([job[2:] for job in later], dtype=np.int64).reshape(-1, 4).T
    client, row, version, read = columns
    return Jobs(client, row, version, read.astype(np.bool_))
