"""`history.csv`: the evaluations of a run, one line per evaluation and seed.

`bound.csv` has the theory beside them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from math import isfinite
from typing import TYPE_CHECKING, NamedTuple

from favano.records.document import Whole
from favano.records.metric import ACCURACY, LOSS, MetricRecord
from favano.records.table import from_csv, to_csv, write_csv

if TYPE_CHECKING:
    from pandas import DataFrame  # type: ignore[import-untyped]


class Row(NamedTuple):
    """One evaluation of a run. Counts are totals since the start."""

    seed: Whole
    time: float  # simulated, in units of time
    server_step: Whole  # updates of the server model
    local_steps: Whole  # of all finished jobs, lost ones included
    bits_up: Whole  # from clients to the server
    bits_down: Whole  # from the server to clients
    loss: float  # mean over the test set
    metrics: Mapping[str, float]  # by name, a column each; the leading one first
    variance: float  # sum_i ||w_i - w||^2 over the models the clients started from
    potential: float  # ||w - mu||^2 + sum_i ||w_i - mu||^2
    contributed_steps: Whole  # local steps used by updates
    energy: float | None = None  # joules of all clients; None: it is not counted
    model_digest: str = ""  # of the server model; empty in files of earlier versions
    digest: str = ""  # chained: of this row and all rows of the seed before it

    @property
    def accuracy(self) -> float:
        """The accuracy of a classifier, a share of one."""
        return self.metrics[ACCURACY.name]

    def value(self, metric: str) -> float:
        """A metric by its name, or the loss."""
        return self.loss if metric == LOSS.name else self.metrics[metric]

    def cell(self, column: str) -> object:
        """The value in a column of `columns`; None for a metric that this row does not have."""
        return getattr(self, column) if column in Row._fields else self.metrics.get(column)


_DIGESTS = ("model_digest", "digest")
_SOMETIMES = ("energy", *_DIGESTS)


def columns(row: Row) -> list[str]:
    """The columns of a row, digests included."""
    return _columns(row.metrics, [] if row.energy is None else ["energy"], _DIGESTS)


def columns_of(rows: Sequence[Row]) -> list[str]:
    """The columns of these rows; histories of earlier versions have no digests."""
    energy = ["energy"] if any(row.energy is not None for row in rows) else []
    return _columns(metric_names(rows), energy, _DIGESTS if any(row.digest for row in rows) else ())


def _columns(metrics: Iterable[str], *some: Iterable[str]) -> list[str]:
    """The fields of a row, with one column for each metric, and some of those not always there."""
    names = [name for name in Row._fields if name not in _SOMETIMES]
    place = names.index("metrics")
    return [*names[:place], *metrics, *names[place + 1 :], *chain.from_iterable(some)]


def metric_names(rows: Sequence[Row]) -> tuple[str, ...]:
    """Names of the metrics in a history; of an empty one, accuracy."""
    names = dict.fromkeys(name for row in rows for name in row.metrics)
    return tuple(names) if rows else (ACCURACY.name,)


def diverged(row: Row) -> bool:
    """Whether the loss or the variance is not finite."""
    return not (isfinite(row.loss) and isfinite(row.variance))


def rows_by_seed(rows: Iterable[Row]) -> dict[int, list[Row]]:
    """The rows of each seed, in their order."""
    by_seed: dict[int, list[Row]] = {}
    for row in rows:
        by_seed.setdefault(row.seed, []).append(row)
    return by_seed


def up_to(rows: Iterable[Row], horizon: float) -> list[Row]:
    """The rows at or before the horizon.

    A synchronous round that starts before the horizon may end after it, as may a queue at the
    server; the last row then belongs to a later model than those of other methods.
    """
    return [row for row in rows if row.time <= horizon]


def best_row(rows: Iterable[Row], metric: MetricRecord, horizon: float | None) -> Row | None:
    """The first row with the best value up to the horizon; None if none is finite."""
    best: Row | None = None
    for row in rows if horizon is None else up_to(rows, horizon):
        value = row.value(metric.name)
        if isfinite(value) and (best is None or metric.better(value, best.value(metric.name))):
            best = row
    return best


def history_to_csv(rows: Sequence[Row]) -> str:
    """The text of `history.csv`."""
    header = columns_of(rows)
    return write_csv(header, ([row.cell(name) for name in header] for row in rows))


def history_from_csv(text: str) -> list[Row]:
    """The inverse of `history_to_csv`; columns that are not fields of a row are metrics."""
    return from_csv(Row, text, others="metrics", later=_SOMETIMES)


class History(dict[str, list[object]]):
    """Evaluations as columns: `history["accuracy"]`; `history.frame()` needs pandas."""

    @classmethod
    def of(cls, results: Mapping[str, Sequence[Row]]) -> History:
        """The rows of results by name; where there are several, the first column is the method."""
        rows = [row for some in results.values() for row in some]
        names: list[object] = [name for name, some in results.items() for _ in some]
        table = {name: [row.cell(name) for row in rows] for name in columns_of(rows)}
        return cls({"method": names, **table} if len(results) > 1 else table)

    def frame(self) -> DataFrame:
        """The columns as a pandas frame."""
        from pandas import DataFrame

        return DataFrame(dict(self))


class BoundRow(NamedTuple):
    """One evaluation of a run beside the theory; infinite where there is no bound."""

    seed: int
    time: float  # simulated, in units of time
    server_step: int  # T
    gradient: float  # ||grad f(mu_T)||^2
    mean_gradient: float  # (1/T) sum_{t<T} ||grad f(mu_t)||^2, from the evaluations
    potential: float  # Phi_T
    potential_bound: float
    bound_short: float
    bound_full: float
    bound_assembled: float
    learning_rate: float  # eta of the run
    largest_rate: float  # the largest for which the theorem holds
    smoothness: float  # L; this and the constants below are the largest seen so far
    noise: float  # sigma
    dissimilarity: float  # G
    gap: float  # F


bounds_to_csv = partial(to_csv, BoundRow)
bounds_from_csv = partial(from_csv, BoundRow)
