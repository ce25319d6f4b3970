"""Listeners: they hear of every evaluation, as observers do, but can neither end nor fail a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from favano.errors import format_error, require
from favano.notices import notice
from favano.run.early_stopping import EarlyStopping
from favano.run.observer import Evaluation, Observer, ObserverReply


class Listener(Protocol):
    """Hears of evaluations until the runs are over."""

    @property
    def name(self) -> str:
        """What a warning calls it."""

    def hear(self, made: Evaluation) -> None:
        """Take in an evaluation; an error ends the listener and nothing else."""

    def close(self) -> None:
        """Finish what is written; called once."""


class Listeners:
    """An observer of listeners, and of an observer that may end the run.

    A listener that fails is named in one warning, and hears no more. `listeners` is changed then.
    """

    def __init__(self, listeners: list[Listener], deciding: Observer | None = None) -> None:
        self.listeners, self.deciding = listeners, deciding

    def __call__(self, made: Evaluation) -> ObserverReply | None:
        """Tell all of them."""
        for listener in list(self.listeners):
            try:
                listener.hear(made)
            except Exception as error:
                self.listeners.remove(listener)
                _warn(listener, error)
        return None if self.deciding is None else self.deciding(made)


def _warn(listener: Listener, error: Exception) -> None:
    notice(f"{listener.name} failed ({format_error(error)}); the runs go on without it")


@contextmanager
def listening(
    listeners: Sequence[Listener], deciding: Observer | None = None
) -> Iterator[Observer | None]:
    """The observer of runs with these listeners, which are closed at the end."""
    if not listeners:
        yield deciding
        return
    observer = Listeners(list(listeners), deciding)
    try:
        yield observer
    finally:
        for listener in observer.listeners:
            try:
                listener.close()
            except Exception as error:
                _warn(listener, error)


def told_again(observer: Observer | None) -> Observer | None:
    """Who is told of the evaluations before a checkpoint, too: who counts or shows them all."""
    if isinstance(observer, Listeners):
        return Listeners(observer.listeners, told_again(observer.deciding))
    return observer if isinstance(observer, EarlyStopping) else None


def check_here(name: str, value: object, cluster: str | None) -> None:
    """Refuse listeners of runs on a cluster."""
    rule = "listens in this process, and the runs would be on a cluster; remove one of the two"
    require(not value or cluster in (None, "none"), name, value, rule)
