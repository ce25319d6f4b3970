"""`history.csv`: the evaluations of a run, one line per evaluation and seed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from math import isfinite
from typing import TYPE_CHECKING, NamedTuple

from favano.records.table import from_csv, to_csv

if TYPE_CHECKING:
    from pandas import DataFrame  # type: ignore[import-untyped]


class Row(NamedTuple):
    """One evaluation of a run. Counts are totals since the start."""

    seed: int
    time: float  # simulated, in units of time
    server_step: int  # updates of the server model
    local_steps: int  # of all finished jobs, lost ones included
    bits_up: int  # from clients to the server
    bits_down: int  # from the server to clients
    loss: float  # mean over the test set
    accuracy: float  # share of the test set, 0 to 1
    variance: float  # sum_i ||w_i - w||^2 over the models the clients started from
    potential: float  # ||w - mu||^2 + sum_i ||w_i - mu||^2
    contributed_steps: int  # local steps used by updates


def diverged(row: Row) -> bool:
    """Whether the loss or the variance is not finite."""
    return not (isfinite(row.loss) and isfinite(row.variance))


def up_to(rows: Iterable[Row], horizon: float) -> list[Row]:
    """The rows at or before the horizon.

    A synchronous round that starts before the horizon may end after it, as may a queue at the
    server; the last row then belongs to a later model than those of other methods.
    """
    return [row for row in rows if row.time <= horizon]


history_to_csv = partial(to_csv, Row)
history_from_csv = partial(from_csv, Row)


class History(dict[str, list[object]]):
    """Evaluations as columns: `history["accuracy"]`; `history.frame()` needs pandas."""

    @classmethod
    def of(cls, results: Mapping[str, Sequence[Row]]) -> History:
        """The rows of results by name; where there are several, the first column is the method."""
        rows = [row for some in results.values() for row in some]
        names: list[object] = [name for name, some in results.items() for _ in some]
        columns = {name: [getattr(row, name) for row in rows] for name in Row._fields}
        return cls({"method": names, **columns} if len(results) > 1 else columns)

    def frame(self) -> DataFrame:
        """The columns as a pandas frame."""
        from pandas import DataFrame

        return DataFrame(dict(self))
