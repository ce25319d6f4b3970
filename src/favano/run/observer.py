"""Observers of runs: functions that are told of every evaluation, and may end the run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Final, TypeAlias

from favano.errors import format_error, require
from favano.records import Row
from favano.records.history import columns

if TYPE_CHECKING:
    from favano.results import Result


class ObserverReply(Enum):
    """What an observer may answer."""

    STOP = "stop"


STOP: Final = ObserverReply.STOP
Observer: TypeAlias = Callable[[Mapping[str, object]], ObserverReply | None]


class ObserverFailed(RuntimeError):
    """An observer raised an error; `results` hold the evaluations made until then."""

    def __init__(self, error: Exception) -> None:
        super().__init__(f"on_evaluate raised {format_error(error)}")
        self.error = error
        self.results: list[Result] = []


def wants_to_stop(observer: Observer, method: str, row: Row) -> bool:
    """Tell an observer of an evaluation; whether it ends the run."""
    cells = {name: row.cell(name) for name in columns(row)}
    try:
        answer = observer({"method": method, **cells})
        rule = "need None, or favano.STOP to end the run, as the answer"
        require(answer is None or answer is STOP, "on_evaluate", answer, rule)
    except Exception as error:
        raise ObserverFailed(error) from error
    return answer is STOP
