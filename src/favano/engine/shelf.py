"""Room for many models of one size that come and go, in few large pieces of memory.

Thousands of models of some 100 kB, each kept for a different time between the large temporary
stacks of an update, leave a C library's heap full of holes. Rows of a few large blocks do not.
"""

from __future__ import annotations

from favano.types import Stack, Vector

_FIRST_ROWS = 8
_MOST_BYTES = 64 << 20  # of one block, unless a single model is larger


class Shelf:
    """Keeps copies of vectors; a row that is given back is used again."""

    def __init__(self, like: Vector) -> None:
        self._like = like
        self._blocks: list[Stack] = []
        self._free: list[Vector] = []

    @property
    def rows(self) -> int:
        """Room made so far, in models."""
        return sum(len(block) for block in self._blocks)

    def keep(self, vector: Vector) -> Vector:
        """A copy of the vector, on the shelf."""
        if not self._free:
            self._grow()
        row = self._free.pop()
        row.copy_(vector)
        return row

    def give_back(self, row: Vector) -> None:
        """Nobody needs this row any more; it must not be read again."""
        self._free.append(row)

    def _grow(self) -> None:
        """Twice the room, in blocks of bounded size."""
        most = max(1, _MOST_BYTES // (len(self._like) * self._like.element_size()))
        block = self._like.new_empty(min(max(_FIRST_ROWS, self.rows), most), len(self._like))
        self._blocks.append(block)
        self._free.extend(block.unbind())
