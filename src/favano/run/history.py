"""The evaluations of a result, as columns or as a pandas frame."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from favano.records import Row

if TYPE_CHECKING:
    from pandas import DataFrame  # type: ignore[import-untyped]


class History(dict[str, list[object]]):
    """Columns by name: `history["accuracy"]`; `history.frame()` needs pandas."""

    @classmethod
    def of(cls, rows: Sequence[Row]) -> History:
        """The columns of rows."""
        return cls({name: [getattr(row, name) for row in rows] for name in Row._fields})

    def frame(self) -> DataFrame:
        """The same as a pandas frame."""
        from pandas import DataFrame

        return DataFrame(dict(self))
