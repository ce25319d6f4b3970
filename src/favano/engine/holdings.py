"""Who holds which model, for many runs at once: all models are rows of one bank."""

from __future__ import annotations

import numpy as np

from favano.engine.bank import Bank
from favano.engine.jobs import JobTable, ranges
from favano.engine.spread import Spread, spread
from favano.types import Ints, Stack, Vector


class Holdings:
    """Server versions that somebody still needs, and the models clients keep for themselves.

    Clients and versions are numbered as in the table; -1 stands for no row.
    """

    def __init__(self, table: JobTable, like: Vector, parameters: int) -> None:
        self.bank = Bank(like)
        self._table, self._parameters = table, parameters
        self._version = np.full(table.first_version[-1], -1)
        self._own = np.full(table.first_client[-1], -1)
        self._held = np.repeat(table.first_version[:-1], np.diff(table.first_client))

    def begin(self, run: int, initial: Vector) -> None:
        """All clients of a run hold its initial model."""
        self._version[self._table.first_version[run]] = self.bank.keep(initial[None])[0]

    def versions(self, versions: Ints) -> Ints:
        """Rows of server versions."""
        return self._version[versions]

    def starts(self, jobs: Ints) -> Ints:
        """Rows of the jobs' start models: a client's own model where it has one."""
        own = self._own[self._table.client[jobs]]
        return np.where(own >= 0, own, self._version[self._table.base[jobs]])

    def put(self, versions: Ints, models: Stack) -> None:
        """Take in new server versions, and forget those that nobody needs any more."""
        table = self._table
        self._version[versions] = self.bank.keep(models)
        first, last = table.taken_bounds[versions], table.taken_bounds[versions + 1]
        self._held[table.takers[ranges(first, last)]] = np.repeat(versions, last - first)
        gone = ranges(table.leaving_bounds[versions], table.leaving_bounds[versions + 1])
        self._drop(self._version, table.leaving[gone])

    def keep_own(self, clients: Ints, models: Stack) -> None:
        """These clients go on from models of their own."""
        self._drop(self._own, clients)
        self._own[clients] = self.bank.keep(models)

    def forget_own(self, clients: Ints) -> None:
        """These clients go on from the server's model."""
        self._drop(self._own, clients)

    def close(self, run: int) -> None:
        """A run is over."""
        table = self._table
        self._drop(self._version, np.arange(*table.first_version[run : run + 2]))
        self._drop(self._own, np.arange(*table.first_client[run : run + 2]))

    def spread(self, run: int, server: Vector) -> Spread:
        """How far the models of a run's clients are from its server model."""
        clients = slice(*self._table.first_client[run : run + 2])
        own, held = self._own[clients], self._version[self._held[clients]]
        rows, holders = np.unique(np.where(own >= 0, own, held), return_counts=True)
        return spread([(self.bank.take(rows), holders)], server, self._parameters)

    def _drop(self, rows: Ints, places: Ints) -> None:
        """Give back the rows noted at these places."""
        noted = rows[places]
        self.bank.give_back(noted[noted >= 0])
        rows[places] = -1
