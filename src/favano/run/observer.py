"""Observers of runs: functions that are told of every evaluation, and may end the run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Final, TypeAlias

from favano.errors import format_error, require
from favano.records import LOSS, MetricRecord, Row, leading
from favano.records.history import columns

if TYPE_CHECKING:
    from torch.nn import Module

    from favano.results import Result


class ObserverReply(Enum):
    """What an observer may answer."""

    STOP = "stop"


STOP: Final = ObserverReply.STOP
"""What `on_evaluate` returns to end the run of this method and seed."""


class Evaluation(dict[str, object]):
    """What an observer gets: `method`, and the columns of the history with their values.

    Args:
        cells: names and values.
        metrics: those of the problem, the leading one first.
        make_model: makes the network of this evaluation.
    """

    def __init__(
        self,
        cells: Mapping[str, object],
        metrics: tuple[MetricRecord, ...],
        make_model: Callable[[], Module],
    ) -> None:
        super().__init__(cells)
        self.metrics, self._make_model = metrics, make_model

    def model(self) -> Module:
        """The server model as a network of its own; it is made only if it is asked for."""
        return self._make_model()

    def metric(self, name: str | None = None) -> MetricRecord:
        """A metric by its name, or the leading one."""
        known = {metric.name: metric for metric in (leading(self.metrics), *self.metrics, LOSS)}
        chosen = next(iter(known)) if name is None else name
        require(chosen in known, "metric", chosen, f"need one of {', '.join(known)}")
        return known[chosen]


Observer: TypeAlias = Callable[[Evaluation], ObserverReply | None]


class ObserverFailed(RuntimeError):
    """An observer raised an error; `results` hold the evaluations made until then."""

    def __init__(self, error: Exception) -> None:
        super().__init__(f"on_evaluate raised {format_error(error)}")
        self.error = error
        self.results: list[Result] = []


def evaluation(
    method: str, row: Row, metrics: tuple[MetricRecord, ...], make_model: Callable[[], Module]
) -> Evaluation:
    """A row as observers get it."""
    cells = {name: row.cell(name) for name in columns(row)}
    return Evaluation({"method": method, **cells}, metrics, make_model)


def wants_to_stop(observer: Observer, made: Evaluation) -> bool:
    """Tell an observer of an evaluation; whether it ends the run."""
    try:
        answer = observer(made)
        rule = "need None, or favano.STOP to end the run, as the answer"
        require(answer is None or answer is STOP, "on_evaluate", answer, rule)
    except Exception as error:
        raise ObserverFailed(error) from error
    return answer is STOP
