"""Which model each client holds: row numbers, shared by clients that hold the same model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from favano.aggregation.snapshot import Earlier, Held
from favano.engine.model_rows import ModelRows, last_of_each
from favano.engine.moment import NOTHING
from favano.engine.spread import Spread, spread_of, spreads
from favano.types import Floats, Ints, Stack, Vector

Live: TypeAlias = Mapping[int, Vector]

_NUMBERS_AT_ONCE = 1 << 26  # numbers in the models whose spread is measured together


# What clients hold until they begin jobs whose models exist already. `client` is a number within
# the run; its rows are in the order in which it begins the jobs. `base` is the version that the job
# starts from, `version` the one that the client holds.
_EARLIER = np.dtype(
    [
        *((name, np.int64) for name in ("client", "base", "row", "version", "apart")),
        ("until", np.float64),
    ]
)
_NONE = np.empty(0, _EARLIER)

Entries: TypeAlias = npt.NDArray[np.void]


class Holdings:
    """The models that the clients of all runs hold. Clients are numbered across runs.

    A client holds the model of its newest job. If it begins that job later, `_earlier` has what it
    holds until then.
    """

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
        self._earlier: dict[int, Entries] = {}  # by run

    def open(self, run: int, server: int) -> None:
        """Give the initial model to all clients of a run."""
        self._replace(np.arange(*self.first[run : run + 2]), server)

    def all_rows(self, run: int) -> Ints:
        """Rows of the models that the clients of a run hold, then of those held earlier."""
        held = self.row[slice(*self.first[run : run + 2])]
        return np.concatenate([held, self._earlier.get(run, _NONE)["row"]])

    def saved(self, run: int, place: Ints) -> Held:
        """Who holds what in a run, with the places of the models of `all_rows` in a snapshot."""
        clients = slice(*self.first[run : run + 2])
        earlier, count = self._earlier.get(run, _NONE), clients.stop - clients.start
        all_apart = np.concatenate([self._apart[clients], earlier["apart"]])
        since, apart = np.unique(all_apart, return_inverse=True)
        apart += since[0] > 0  # 0 stays 0
        version, own = self._version[clients].copy(), self.own[clients].copy()
        who, base, before = earlier["client"], earlier["base"], earlier["version"]
        begun_later = Earlier(who, base, place[count:], before, apart[count:])
        return Held(place[:count], version, own, apart[:count], begun_later)

    def go_on_from(self, run: int, held: Held, rows: Ints, until: Floats) -> None:
        """Give the models in these rows to the clients of a run."""
        clients, earlier = slice(*self.first[run : run + 2]), held.earlier
        self._replace(np.arange(clients.start, clients.stop), rows[held.place])
        self._version[clients], self.own[clients] = held.version, held.own
        self._apart[clients] = np.where(held.apart > 0, self._given + held.apart, 0)
        apart = np.where(earlier.apart > 0, self._given + earlier.apart, 0)
        who, base, before = earlier.client, earlier.base, earlier.version
        self._hold_earlier(run, _entries(who, base, rows[earlier.place], before, apart, until))
        self._given += int(max(held.apart.max(), earlier.apart.max(initial=0)))

    def close(self, run: int) -> None:
        """Give back the models of a run's clients."""
        clients = slice(*self.first[run : run + 2])
        self.rows.release(self.all_rows(run))
        self.row[clients] = -1
        self._earlier.pop(run, None)

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

    def adopt_in_turn(
        self, run: int, client: Ints, servers: Ints, version: Ints, begin: Floats, now: float
    ) -> Ints:
        """The same for one run, some of whose jobs begin only after `now`."""
        starts, first = servers.copy(), int(self.first[run])
        left = np.arange(len(client))
        while len(left):  # each client's jobs one after the other
            turn = left[_first_places(client[left])]
            who = client[turn]
            later = (begin[turn] > now) & (self._version[who] != version[turn]) & ~self.own[who]
            waiting = who[later]
            held = self.row[waiting], self._version[waiting], self._apart[waiting]
            new = _entries(waiting - first, version[turn][later], *held, begin[turn][later])
            self._hold_earlier(run, new)
            starts[turn] = self.adopt(who, servers[turn], version[turn])
            left = np.setdiff1d(left, turn)
        return starts

    def changing(self, run: int) -> bool:
        """Whether clients of a run hold models that they replace before the next update."""
        return run in self._earlier

    def reach(self, run: int, now: float) -> None:
        """It is `now` in a run: clients that have begun their jobs hold no earlier models."""
        if (earlier := self._earlier.pop(run, None)) is not None:
            over = earlier["until"] <= now
            self.rows.release(earlier["row"][over])
            self._keep_earlier(run, earlier[~over])

    def _hold_earlier(self, run: int, more: Entries) -> None:
        """Let clients hold earlier models for a while."""
        self.rows.refer(more["row"])
        self._keep_earlier(run, np.concatenate([self._earlier.get(run, _NONE), more]))

    def _keep_earlier(self, run: int, earlier: Entries) -> None:
        if len(earlier):
            self._earlier[run] = earlier

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
        for run, earlier in list(self._earlier.items()):
            owned = np.isin(self.first[run] + earlier["client"], client)
            self.rows.release(earlier["row"][owned])
            del self._earlier[run]
            self._keep_earlier(run, earlier[~owned])
        rows = self.rows.keep(models)
        self._replace(client, rows)
        self.rows.release(rows)
        self._set_apart(client[self._apart[client] == 0])
        self.own[client] = True

    def spreads(
        self, runs: Ints, times: Sequence[float], servers: Stack, parameters: int
    ) -> tuple[Tensor, Stack]:
        """Distances of each run's client models from its server model, and the models' means."""
        rows, holders = self._holders(runs, times)
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

    def _holders(self, runs: Ints, times: Sequence[float]) -> tuple[Ints, Ints]:
        """The rows that each run's clients hold, (runs, k), and by how many; by none: padding."""
        counts = self.first[runs + 1] - self.first[runs]
        of = np.repeat(np.arange(len(runs)), counts)
        row = np.concatenate(
            [self.held(run, time) for run, time in zip(runs.tolist(), times, strict=True)]
        )
        held = of * self.rows.total + row
        distinct, by = np.unique(held, return_counts=True)
        of, row = np.divmod(distinct, self.rows.total)
        begin = np.searchsorted(of, np.arange(len(runs)))
        place = np.arange(len(of)) - begin[of]
        rows = np.repeat(row[begin][:, None], int(place.max()) + 1, axis=1)
        holders = np.zeros_like(rows)
        rows[of, place], holders[of, place] = row, by
        return rows, holders

    def held(self, run: int, time: float) -> Ints:
        """(n,) the rows that the clients of a run hold at a time before the next update."""
        rows = self.row[slice(*self.first[run : run + 2])]
        if run in self._earlier:
            earlier = self._earlier_at(run, time)
            rows = rows.copy()
            rows[earlier["client"]] = earlier["row"]
        return rows

    def spread(
        self, run: int, server: Vector, time: float, parameters: int, live: Live = NOTHING
    ) -> Spread:
        """Distances of one run's client models from a server model."""
        clients = slice(*self.first[run : run + 2])
        since, version = self._apart[clients].copy(), self._version[clients].copy()
        earlier = self._earlier_at(run, time)
        since[earlier["client"]] = earlier["apart"]
        version[earlier["client"]] = earlier["version"]
        held = self.held(run, time).tolist()
        apart = np.flatnonzero(since)
        apart = apart[np.lexsort((since[apart], self.own[clients][apart]))]
        single = {client: self.rows.row(held[client]) for client in apart.tolist()}
        single.update(live)
        return spread_of(
            single, version, lambda client: self.rows.row(held[client]), server, parameters
        )

    def _earlier_at(self, run: int, time: float) -> Entries:
        """What clients hold at a time, once for each that holds an earlier model."""
        earlier = self._earlier.get(run, _NONE)
        earlier = earlier[earlier["until"] > time]
        return earlier[_first_places(earlier["client"])]

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

    @property
    def changing(self) -> bool:
        """Whether clients begin jobs before the next update."""
        return self.holdings.changing(self.run)

    def of(self, client: Ints, time: float = inf) -> Stack:
        """The models of these clients."""
        return self.holdings.rows.take(self.holdings.held(self.run, time)[client])

    def spread(self, server: Vector, live: Live = NOTHING, time: float = inf) -> Spread:
        """Their distances from a server model."""
        return self.holdings.spread(self.run, server, time, self.parameters, live)


def _first_places(numbers: Ints) -> Ints:
    """The place of each number's first occurrence, in order."""
    return np.sort(np.unique(numbers, return_index=True)[1])


def _entries(*columns: Ints | Floats) -> Entries:
    entries = np.empty(len(columns[0]), _EARLIER)
    for name, column in zip(_EARLIER.names or (), columns, strict=True):
        entries[name] = column
    return entries
