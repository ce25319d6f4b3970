"""Observers of runs: functions that are told of every evaluation, and may end the run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Final, TypeAlias

from favano.errors import need
from favano.records import Row
from favano.records.history import columns


class Answer(Enum):
    """What an observer may answer."""

    STOP = "stop"


STOP: Final = Answer.STOP
Observer: TypeAlias = Callable[[Mapping[str, object]], Answer | None]


def wants_to_stop(observer: Observer, method: str, row: Row) -> bool:
    """Tell an observer of an evaluation; whether it ends the run."""
    cells = {name: row.cell(name) for name in columns(row.metrics)}
    answer = observer({"method": method, **cells})
    rule = "need None, or favano.STOP to end the run, as the answer"
    need(answer is None or answer is STOP, "on_evaluate", answer, rule)
    return answer is STOP
