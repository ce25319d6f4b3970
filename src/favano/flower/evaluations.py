"""Evaluations of a federation's models: each is made once, by a thread of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future
from typing import TypeAlias

from flwr.app import ArrayRecord, MetricRecord

from favano.flower.flat_arrays import FlatArrays
from favano.flower.rounds import Round
from favano.types import Vector

Evaluate: TypeAlias = Callable[[int, ArrayRecord], MetricRecord | None]
Metrics: TypeAlias = Mapping[str, int | float | list[int] | list[float]]


class Evaluations:
    """Measures the initial model, every so many rounds, and the last model.

    A round is measured, and told of, when its checkpoint is on disk: it will not be made again.

    Args:
        measure: a function of round and model; None: nothing is measured.
        every: rounds between two evaluations.
        last: the last round.
        flat: what the model looks like.
        executor: does the work.
    """

    def __init__(
        self, measure: Evaluate | None, every: int, last: int, flat: FlatArrays, executor: Executor
    ) -> None:
        self._measure, self._every, self._last = measure, every, last
        self._flat, self._executor = flat, executor
        self._found: dict[int, MetricRecord | None] = {}  # by round
        self._unsaved: dict[int, Vector] = {}
        self._waiting: dict[int, tuple[Vector, Future[MetricRecord | None]]] = {}

    def after(self, done: Round, model: Vector) -> None:
        """A round is made; its model is measured when it is saved, if it is time."""
        due = done.number % self._every == 0 or done.number == self._last
        if due and self._measure is not None:
            self._unsaved[done.number] = model

    def saved(self, number: int) -> None:
        """All rounds up to this one are on disk."""
        for due in [due for due in self._unsaved if due <= number]:
            self.measure(due, self._unsaved.pop(due))

    def measure(self, number: int, model: Vector) -> None:
        """Measure a model."""
        if self._measure is not None:
            future = self._executor.submit(self._measure, number, self._flat.arrays(model))
            self._waiting[number] = model, future

    def so_far(self) -> tuple[dict[int, Metrics | None], dict[int, Vector]]:
        """What was found, as plain data, and models that are not measured yet."""
        for number, (_, future) in list(self._waiting.items()):
            if future.done() and future.exception() is None:
                del self._waiting[number]
                self._found[number] = future.result()
        measured: dict[int, Metrics | None] = {
            number: None if record is None else dict(record)
            for number, record in self._found.items()
        }
        waiting = {number: model for number, (model, _) in self._waiting.items()}
        return measured, {**waiting, **self._unsaved}

    def restore(self, known: Mapping[int, Metrics | None], models: Mapping[int, Vector]) -> None:
        """Keep what was found before, and measure the models that were not."""
        for number, metrics in known.items():
            self._found[number] = None if metrics is None else MetricRecord(dict(metrics))
        for number, model in models.items():
            self.measure(number, model)

    def results(self) -> dict[int, MetricRecord]:
        """All results; waits for those that are not here yet."""
        waiting = {number: future.result() for number, (_, future) in self._waiting.items()}
        measured = sorted({**self._found, **waiting}.items())
        return {number: record for number, record in measured if record is not None}
