"""Memory for many models of one size, as rows of a few large blocks.

Thousands of models of some 100 kB, kept for different times between the large temporary stacks of
updates, fragment the heap. Rows of a few large blocks do not, and one kernel can read or write many
rows.
"""

from __future__ import annotations

import numpy as np

from favano.training import to_device
from favano.types import Ints, Stack, Vector

_FIRST_ROWS = 8
_MOST_BYTES = 64 << 20  # per block, unless more rows are needed at once


class ModelRows:
    """Copies of models in numbered rows; rows that are given back are used again.

    A row never moves, so views of it stay valid until it is given back.
    """

    def __init__(self, like: Vector) -> None:
        self._like = like
        self._blocks: list[Stack] = []
        self._first: list[int] = []  # row number at which each block begins
        self._views: list[Vector] = []  # of all rows
        self._free: Ints = np.empty(0, dtype=np.int64)
        self._count = 0  # numbers in `_free`; the rest of it is unused

    @property
    def total(self) -> int:
        """Rows in memory, used or free."""
        return len(self._free)

    @property
    def used(self) -> int:
        """Rows that hold a model."""
        return self.total - self._count

    def reserve(self, rows: int) -> None:
        """Provide at least this number of free rows. If memory is short, nothing changes."""
        if self._count < rows:
            self._grow(rows - self._count)

    def keep(self, models: Stack) -> Ints:
        """Copy the models into free rows, and return the row numbers."""
        self.reserve(len(models))
        left = self._count - len(models)
        taken = self._free[left : self._count].copy()
        if len(self._blocks) == 1:
            self._blocks[0][to_device(taken, self._like)] = models
        else:
            for block, at, places in self._by_block(taken):
                part = models if len(at) == len(models) else models[to_device(at, block)]
                block[to_device(places, block)] = part
        self._count = left
        return taken

    def keep_one(self, model: Vector) -> int:
        """Copy one model into a free row, and return the row number."""
        self.reserve(1)
        number = int(self._free[self._count - 1])
        self._views[number].copy_(model)
        self._count -= 1
        return number

    def take(self, rows: Ints) -> Stack:
        """Copies of these models, (*rows.shape, size)."""
        if len(self._blocks) == 1:
            return self._blocks[0][to_device(rows, self._like)]
        parts = self._by_block(rows.ravel())
        if len(parts) == 1:
            ((block, _, places),) = parts
            return block[to_device(places.reshape(rows.shape), block)]
        found = self._like.new_empty(rows.size, len(self._like))
        for block, at, places in parts:
            found[to_device(at, block)] = block[to_device(places, block)]
        return found.view(*rows.shape, len(self._like))

    def row(self, number: int) -> Vector:
        """One model; a view, and always the same object."""
        return self._views[number]

    def give_back(self, rows: Ints) -> None:
        """Free these rows; views of them must not be read again."""
        self._free[self._count : self._count + len(rows)] = rows
        self._count += len(rows)

    def give_back_one(self, number: int) -> None:
        """Free this row."""
        self._free[self._count] = number
        self._count += 1

    def _by_block(self, rows: Ints) -> list[tuple[Stack, Ints, Ints]]:
        """For each block with some of these rows: which of them, and where in the block."""
        number = np.searchsorted(self._first, rows, side="right") - 1
        groups = ((block, np.flatnonzero(number == block)) for block in np.unique(number).tolist())
        return [(self._blocks[block], at, rows[at] - self._first[block]) for block, at in groups]

    def _grow(self, missing: int) -> None:
        """Add a block of as many rows as there are already, up to a limit."""
        most = max(1, _MOST_BYTES // max(1, len(self._like) * self._like.element_size()))
        rows = max(missing, min(max(_FIRST_ROWS, self.total), most))
        block = self._like.new_empty(rows, len(self._like))
        first, free = self.total, np.empty(self.total + rows, dtype=np.int64)
        free[: self._count] = self._free[: self._count]
        free[self._count : self._count + rows] = np.arange(first + rows - 1, first - 1, -1)
        self._blocks.append(block)
        self._first.append(first)
        self._views += block.unbind()
        self._free = free
        self._count += rows
