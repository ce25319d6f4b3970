"""An observer that ends runs which no longer get better."""

from __future__ import annotations

from math import isnan
from typing import NamedTuple

from favano.errors import require
from favano.run.observer import STOP, Evaluation, ObserverReply


class _Progress(NamedTuple):
    """How a run did so far."""

    time: float
    best: float
    waited: int  # evaluations since the best one


class EarlyStopping:
    """Ends a run after so many evaluations in a row without a better value.

    Each method and seed has its own count; a run that begins again begins a new one. A run that
    goes on from a checkpoint goes on counting.

    Args:
        patience: evaluations without a better value, after which a run ends.
        metric: the name of a metric, or `loss`; by default the leading metric.
        least_change: what is better by less does not count.
    """

    def __init__(
        self, patience: int = 5, *, metric: str | None = None, least_change: float = 0.0
    ) -> None:
        whole = isinstance(patience, int) and not isinstance(patience, bool) and patience >= 1
        require(whole, "patience", patience, "need a whole number, 1 or more")
        require(least_change >= 0, "least_change", least_change, "need a number >= 0")
        self.patience, self.metric, self.least_change = patience, metric, least_change
        self._runs: dict[tuple[object, object], _Progress] = {}

    def __call__(self, made: Evaluation) -> ObserverReply | None:
        """Stop the run of this method and seed if it has waited long enough."""
        metric = made.metric(self.metric)
        value, time = float(str(made[metric.name])), float(str(made["time"]))
        run = made["method"], made["seed"]
        before = self._runs.get(run)
        if before is None or time <= before.time:
            self._runs[run] = _Progress(time, value, 0)
            return None
        change = self.least_change if metric.best == "high" else -self.least_change
        if isnan(before.best) or metric.better(value, before.best + change):
            self._runs[run] = _Progress(time, value, 0)
            return None
        self._runs[run] = _Progress(time, before.best, before.waited + 1)
        return STOP if before.waited + 1 >= self.patience else None
