"""The models that the clients of all runs hold, in the array engine: a table of row numbers."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from favano.engine.job_table import JobTable, ranges
from favano.engine.model_rows import ModelRows
from favano.engine.spread import spreads
from favano.types import Ints, Stack, Vector

_NUMBERS_AT_ONCE = 1 << 26  # numbers in the models whose spread is measured together


class ArrayModels:
    """Server versions that are still needed, and clients' own models.

    Clients and versions are numbered as in the job table; row -1 means none.
    """

    def __init__(self, table: JobTable, like: Vector, parameters: int) -> None:
        self.rows = ModelRows(like)
        self._table, self._parameters = table, parameters
        self._version = np.full(table.first_version[-1], -1)
        self._own = np.full(table.first_client[-1], -1)
        self._held = np.repeat(table.first_version[:-1], np.diff(table.first_client))

    def begin(self, run: int, initial: Vector) -> None:
        """Give the initial model of a run to all its clients."""
        self._version[self._table.first_version[run]] = self.rows.keep(initial[None])[0]

    def versions(self, versions: Ints) -> Ints:
        """Rows of server versions."""
        return self._version[versions]

    def starts(self, jobs: Ints) -> Ints:
        """Rows of the jobs' start models: a client's own model where it has one."""
        own = self._own[self._table.client[jobs]]
        return np.where(own >= 0, own, self._version[self._table.base[jobs]])

    def put(self, versions: Ints, models: Stack) -> None:
        """Keep new server versions, and drop those that are no longer needed."""
        table = self._table
        self._version[versions] = self.rows.keep(models)
        first, last = table.taken_bounds[versions], table.taken_bounds[versions + 1]
        self._held[table.takers[ranges(first, last)]] = np.repeat(versions, last - first)
        gone = ranges(table.leaving_bounds[versions], table.leaving_bounds[versions + 1])
        self._drop(self._version, table.leaving[gone])

    def keep_own(self, clients: Ints, models: Stack) -> None:
        """These clients continue from models of their own."""
        self._drop(self._own, clients)
        self._own[clients] = self.rows.keep(models)

    def forget_own(self, clients: Ints) -> None:
        """These clients continue from the server model."""
        self._drop(self._own, clients)

    def close(self, run: int) -> None:
        """Drop all models of a run."""
        table = self._table
        self._drop(self._version, np.arange(*table.first_version[run : run + 2]))
        self._drop(self._own, np.arange(*table.first_client[run : run + 2]))

    def spreads(self, runs: Ints, servers: Stack) -> tuple[Tensor, Stack]:
        """Distances of each run's client models from its server model, and the models' means."""
        rows, holders = self._held_by(runs)
        size = servers.shape[1]
        at_once = max(1, _NUMBERS_AT_ONCE // (rows.shape[1] * size))  # runs
        width = max(1, _NUMBERS_AT_ONCE // size)  # models of one of them
        parts = []
        for first in range(0, len(runs), at_once):
            of = slice(first, first + at_once)
            columns = (slice(place, place + width) for place in range(0, rows.shape[1], width))
            models = ((self.rows.take(rows[of, some]), holders[of, some]) for some in columns)
            parts.append(spreads(models, servers[of], self._parameters))
        distances, means = zip(*parts, strict=True)
        return torch.cat(distances), torch.cat(means)

    def _held_by(self, runs: Ints) -> tuple[Ints, Ints]:
        """Distinct models of each run, (runs, k), and their numbers of holders; 0 is padding."""
        found = []
        for run in runs.tolist():
            clients = slice(*self._table.first_client[run : run + 2])
            own, held = self._own[clients], self._version[self._held[clients]]
            found.append(np.unique(np.where(own >= 0, own, held), return_counts=True))
        rows = np.zeros((len(runs), max(len(one) for one, _ in found)), dtype=np.int64)
        holders = np.zeros_like(rows)
        for place, (one, count) in enumerate(found):
            rows[place] = one[0]
            rows[place, : len(one)], holders[place, : len(one)] = one, count
        return rows, holders

    def _drop(self, rows: Ints, places: Ints) -> None:
        """Free the rows at these positions of a table."""
        noted = rows[places]
        self.rows.give_back(noted[noted >= 0])
        rows[places] = -1
