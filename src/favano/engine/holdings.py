"""Which model each client holds: row numbers, shared by clients that hold the same model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from favano.aggregation.snapshot import Held
from favano.engine.model_rows import ModelRows, last_of_each
from favano.engine.moment import NOTHING
from favano.engine.spread import Spread, spread_of, spreads
from favano.types import Ints, Stack, Vector

Live: TypeAlias = Mapping[int, Vector]

_NUMBERS_AT_ONCE = 1 << 26  # numbers in the models whose spread is measured together


class Holdings:
    """The models that the clients of all runs hold. Clients are numbered across runs."""

    def __init__(self, rows: ModelRows, clients: Sequence[int]) -> None:
        self.rows = rows
        self.first = np.cumsum([0, *clients])  # (runs + 1,) first client of each run
        total = int(self.first[-1])
        self.row = np.full(total, -1)  # the row that each client holds; -1: none
        self._version = np.full(total, -1)  # the version that each client holds
        self.own = np.zeros(total, dtype=np.bool_)  # clients that continue from their own model
        # When a client got a model that it does not share; 0: it shares a version.
        self._apart = np.zeros(total, dtype=np.int64)
        self._given = 0
        self._place = np.zeros(total, dtype=np.int64)  # of a client in a list

    def open(self, run: int, server: int) -> None:
        """Give the initial model to all clients of a run."""
        self._replace(np.arange(*self.first[run : run + 2]), server)

    def saved(self, run: int, place: Ints) -> Held:
        """Who holds what in a run, with the place of each client's model in a snapshot."""
        clients = slice(*self.first[run : run + 2])
        since, apart = np.unique(self._apart[clients], return_inverse=True)
        apart += since[0] > 0  # 0 stays 0
        return Held(place, self._version[clients].copy(), self.own[clients].copy(), apart)

    def go_on_from(self, run: int, held: Held, rows: Ints) -> None:
        """Give the models in these rows to the clients of a run."""
        clients = slice(*self.first[run : run + 2])
        self._replace(np.arange(clients.start, clients.stop), rows[held.place])
        self._version[clients], self.own[clients] = held.version, held.own
        self._apart[clients] = np.where(held.apart > 0, self._given + held.apart, 0)
        self._given += int(held.apart.max())

    def close(self, run: int) -> None:
        """Give back the models of a run's clients."""
        clients = slice(*self.first[run : run + 2])
        self.rows.release(self.row[clients])
        self.row[clients] = -1

    def adopt(self, client: Ints, servers: Ints, version: Ints) -> Ints:
        """Clients begin jobs: from new versions, or from their own models. Returns the rows.

        A client that is named more than once holds the last version.
        """
        own = self.own[client]
        adopting = client
        if own.any():
            starts = np.where(own, self.row[client], servers)
            adopting, servers, version = client[~own], servers[~own], version[~own]
        else:
            starts = servers
        last = last_of_each(adopting, self._place)
        adopting = adopting[last]
        self._replace(adopting, servers[last])
        self._version[adopting], self._apart[adopting] = version[last], 0
        return starts

    def read(self, client: Ints, models: Sequence[Vector]) -> None:
        """Clients read the version that they adopt as these models, behind a codec."""
        distinct = {id(model): model for model in models}
        if distinct:
            rows = self.rows.keep(torch.stack(list(distinct.values())))
            row = dict(zip(distinct, rows.tolist(), strict=True))
            self._replace(client, np.array([row[id(model)] for model in models]))
            self.rows.release(rows)
            self._set_apart(client)

    def keep_own(self, client: Ints, models: Stack) -> None:
        """These clients continue from models of their own."""
        rows = self.rows.keep(models)
        self._replace(client, rows)
        self.rows.release(rows)
        self._set_apart(client[self._apart[client] == 0])
        self.own[client] = True

    def spreads(self, runs: Ints, servers: Stack, parameters: int) -> tuple[Tensor, Stack]:
        """Distances of each run's client models from its server model, and the models' means."""
        rows, holders = self._holders(runs)
        size = servers.shape[1]
        at_once = max(1, _NUMBERS_AT_ONCE // (rows.shape[1] * size))  # runs
        width = max(1, _NUMBERS_AT_ONCE // size)  # models of one of them
        parts = []
        for first in range(0, len(runs), at_once):
            of = slice(first, first + at_once)
            columns = (slice(place, place + width) for place in range(0, rows.shape[1], width))
            models = ((self.rows.take(rows[of, some]), holders[of, some]) for some in columns)
            parts.append(spreads(models, servers[of], parameters))
        if len(parts) == 1:
            return parts[0]
        distances, means = zip(*parts, strict=True)
        return torch.cat(distances), torch.cat(means)

    def _holders(self, runs: Ints) -> tuple[Ints, Ints]:
        """The rows that each run's clients hold, (runs, k), and by how many; by none: padding."""
        counts = self.first[runs + 1] - self.first[runs]
        of = np.repeat(np.arange(len(runs)), counts)
        within = np.arange(len(of)) - np.repeat(np.cumsum(counts) - counts, counts)
        held = of * self.rows.total + self.row[self.first[runs][of] + within]
        distinct, by = np.unique(held, return_counts=True)
        of, row = np.divmod(distinct, self.rows.total)
        begin = np.searchsorted(of, np.arange(len(runs)))
        place = np.arange(len(of)) - begin[of]
        rows = np.repeat(row[begin][:, None], int(place.max()) + 1, axis=1)
        holders = np.zeros_like(rows)
        rows[of, place], holders[of, place] = row, by
        return rows, holders

    def spread(self, run: int, server: Vector, parameters: int, live: Live = NOTHING) -> Spread:
        """Distances of one run's client models from a server model."""
        clients = slice(*self.first[run : run + 2])
        since, held = self._apart[clients], self.row[clients].tolist()
        apart = np.flatnonzero(since)
        apart = apart[np.lexsort((since[apart], self.own[clients][apart]))]
        single = {client: self.rows.row(held[client]) for client in apart.tolist()}
        single.update(live)
        version = self._version[clients]
        return spread_of(single, version, lambda one: self.rows.row(held[one]), server, parameters)

    def _replace(self, client: Ints, rows: Ints | int) -> None:
        """Let clients hold other rows."""
        before = self.row[client]
        self.row[client] = rows
        self.rows.refer(self.row[client])
        self.rows.release(before[before >= 0])

    def _set_apart(self, client: Ints) -> None:
        self._apart[client] = self._given + 1 + np.arange(len(client))
        self._given += len(client)


@dataclass(frozen=True)
class HeldModels:
    """The models that the clients of one run hold."""

    holdings: Holdings
    run: int
    parameters: int

    def of(self, client: Ints) -> Stack:
        """The models of these clients."""
        held = self.holdings.row[self.holdings.first[self.run] + client]
        return self.holdings.rows.take(held)

    def spread(self, server: Vector, live: Live = NOTHING) -> Spread:
        """Their distances from a server model."""
        return self.holdings.spread(self.run, server, self.parameters, live)
