"""Memory for many models of one size, as rows of a few large blocks.

Thousands of models of some 100 kB, kept for different times between the large temporary stacks of
updates, fragment the heap. Rows of a few large blocks do not, and one kernel can read or write many
rows.
"""

from __future__ import annotations

import numpy as np

from favano.training import aligned, to_device
from favano.types import Ints, Mask, Stack, Vector

_FIRST_ROWS = 8
_FEW = 4  # models that are copied one by one
_MOST_BYTES = 64 << 20  # per block, unless more rows are needed at once


class ModelRows:
    """Copies of models in numbered rows. A row is free again when nobody refers to it any more.

    A row never moves, so views of it stay valid until it is free.
    """

    def __init__(self, like: Vector) -> None:
        self._like, self._size = like, len(like)
        self._width = aligned(self._size) if like.is_cuda else self._size
        self._blocks: list[Stack] = []
        self._first: list[int] = []  # row number at which each block begins
        self._views: list[Vector] = []  # of all rows
        # Counted, since clients, jobs and runs share versions: a FAVANO client is a reference.
        self._references: Ints = np.empty(0, dtype=np.int64)  # to each row
        self._place: Ints = np.empty(0, dtype=np.int64)  # of each row in a list
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

    def store(self, models: Stack) -> Ints:
        """Copy the models into free rows, with one reference each; returns the row numbers."""
        self.reserve(len(models))
        left = self._count - len(models)
        taken = self._free[left : self._count].copy()
        if len(models) < _FEW:
            for place, row in enumerate(taken.tolist()):
                self._views[row].copy_(models[place])
        else:
            for block, at, places in self._by_block(taken):
                part = models if len(at) == len(models) else models[to_device(at, block)]
                block[:, : self._size].index_copy_(0, to_device(places, block), part)
        self._references[taken] = 1
        self._count = left
        return taken

    def take(self, rows: Ints) -> Stack:
        """These models, (*rows.shape, size): copies, except of a single one."""
        if rows.size == 1:
            return self._views[int(rows.ravel()[0])].expand(*rows.shape, -1)
        parts = self._by_block(rows.ravel())
        if len(parts) == 1:
            ((block, _, places),) = parts
            models = block.index_select(0, to_device(places, block))
        else:
            models = self._like.new_empty(rows.size, self._width)
            for block, at, places in parts:
                models[to_device(at, block)] = block.index_select(0, to_device(places, block))
        return models.view(*rows.shape, self._width)[..., : self._size]

    def row(self, number: int) -> Vector:
        """One model; a view, and always the same object."""
        return self._views[number]

    def retain(self, rows: Ints) -> None:
        """Add a reference to each of these rows; a row may be named more than once."""
        np.add.at(self._references, rows, 1)

    def release(self, rows: Ints) -> None:
        """Take a reference from each of these rows; views of free rows must not be read again."""
        np.subtract.at(self._references, rows, 1)
        gone = rows[self._references[rows] == 0]
        if len(gone):
            gone = gone[last_of_each(gone, self._place)]
            self._free[self._count : self._count + len(gone)] = gone
            self._count += len(gone)

    def _by_block(self, rows: Ints) -> list[tuple[Stack, Ints, Ints]]:
        """For each block with some of these rows: which of them, and where in the block."""
        if len(self._blocks) == 1:
            return [(self._blocks[0], np.arange(len(rows)), rows)]
        number = np.searchsorted(self._first, rows, side="right") - 1
        groups = ((block, np.flatnonzero(number == block)) for block in np.unique(number).tolist())
        return [(self._blocks[block], at, rows[at] - self._first[block]) for block, at in groups]

    def _grow(self, missing: int) -> None:
        """Add a block of as many rows as there are already, up to a limit."""
        most = max(1, _MOST_BYTES // max(1, self._width * self._like.element_size()))
        rows = max(missing, min(max(_FIRST_ROWS, self.total), most))
        block = self._like.new_empty(rows, self._width)
        first = self.total
        self._free = np.insert(self._free, self._count, np.arange(first, first + rows)[::-1])
        self._blocks.append(block)
        self._first.append(first)
        self._views += block[:, : self._size].unbind()
        self._references = np.append(self._references, np.zeros(rows, dtype=np.int64))
        self._place = np.append(self._place, np.zeros(rows, dtype=np.int64))
        self._count += rows


def last_of_each(numbers: Ints, room: Ints) -> Mask:
    """Marks the last place of each number, faster than sorting; `room` is overwritten."""
    place = np.arange(len(numbers))
    room[numbers] = place
    marked: Mask = room[numbers] == place
    return marked
