"""Models of many runs as rows of one tensor, so that one kernel reads or writes many of them."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from favano.training import to_device
from favano.types import Ints, Stack, Vector

_FIRST_ROWS = 64


class Bank:
    """Rows that are kept and given back by number; it grows by half when it is full."""

    def __init__(self, like: Vector, rows: int = _FIRST_ROWS) -> None:
        self.rows: Stack = like.new_empty(rows, len(like))
        self._free = np.arange(rows - 1, -1, -1)
        self._count = rows  # numbers in `_free`, the rest of it is room

    @property
    def used(self) -> int:
        """Rows that somebody keeps."""
        return len(self.rows) - self._count

    def reserve(self, rows: int) -> None:
        """Have so many free rows. Where there is no memory for them, all stays as it is."""
        while self._count < rows:
            self._grow()

    def keep(self, models: Stack) -> Ints:
        """Put copies of the models into free rows."""
        self.reserve(len(models))
        left = self._count - len(models)
        taken = self._free[left : self._count].copy()
        self.rows[self.places(taken)] = models
        self._count = left
        return taken

    def take(self, rows: Ints) -> Stack:
        """Copies of these models."""
        return self.rows[self.places(rows)]

    def give_back(self, rows: Ints) -> None:
        """Nobody needs these rows any more."""
        self._free[self._count : self._count + len(rows)] = rows
        self._count += len(rows)

    def places(self, rows: Ints) -> Tensor:
        """Row numbers on the bank's device."""
        return to_device(rows, self.rows)

    def _grow(self) -> None:
        before, more = len(self.rows), len(self.rows) // 2 + 1
        self.rows = torch.cat([self.rows, self.rows.new_empty(more, self.rows.shape[1])])
        free = np.empty(before + more, dtype=np.int64)
        free[: self._count] = self._free[: self._count]
        free[self._count : self._count + more] = np.arange(before + more - 1, before - 1, -1)
        self._free = free
        self._count += more
