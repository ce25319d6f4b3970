"""Loss and metrics of a model on the samples that each client holds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor

from favano.errors import require
from favano.metrics.evaluation import Evaluator
from favano.metrics.metric import Metric, recorded
from favano.records import LOSS, MetricRecord
from favano.types import Ints, Stack, Vector

EvaluateOn: TypeAlias = Literal["test", "clients", "both"]


class ClientSamples(NamedTuple):
    """Samples of each client: their places, and what gives inputs and targets there."""

    parts: Sequence[Ints]
    take: Callable[[Ints], tuple[Tensor, Tensor]]


@dataclass(frozen=True, eq=False)
class ClientEvaluator:
    """Scores flat models on the test set and on each client's samples, or on the latter alone."""

    test: Evaluator
    samples: ClientSamples
    both: bool

    def measure(self, vector: Vector) -> Tensor:
        """Mean loss, metrics, and the numbers over clients of `client_metrics`."""
        scores = self.each(vector, range(len(self.samples.parts)))
        judged, place = recorded(self.test.metrics), 1
        if not judged:
            judged, place = (LOSS,), 0
        means = torch.cat([scores[:, :1].mean(dim=0), scores[:, 1:].nanmean(dim=0)])
        worst = [worst_tenth(scores[:, place + k], metric) for k, metric in enumerate(judged)]
        if not self.both:
            return torch.cat([means, torch.stack(worst)])
        pairs = torch.stack([means[place:], torch.stack(worst)], dim=1).flatten()
        return torch.cat([self.test.measure(vector), pairs])

    def each(self, vector: Vector, clients: Iterable[int], most: int | None = None) -> Stack:
        """Mean loss and metrics for each of these clients, (n, 1 + m).

        On all its samples, or on at most `most`, evenly spread.
        """
        self.test.load(vector)
        parts = (_spread(self.samples.parts[client], most) for client in clients)
        return torch.stack([self._score(*self.samples.take(part)) for part in parts])

    def _score(self, features: Tensor, targets: Tensor) -> Tensor:
        """Mean loss and metrics on the samples of one client; NaN for metrics that fail there.

        Some are not defined for every client, as the area under a curve for a single class.
        """
        try:
            return self.test.score(features, targets)
        except Exception:
            loss = replace(self.test, metrics={}).score(features, targets)
            names = self.test.metrics
            return torch.cat([loss, *(self._alone(name, features, targets) for name in names)])

    def _alone(self, name: str, features: Tensor, targets: Tensor) -> Tensor:
        """One metric, or NaN, (1,)."""
        try:
            judge = replace(self.test, metrics={name: self.test.metrics[name]})
            return judge.score(features, targets)[1:]
        except Exception:
            return torch.full((1,), torch.nan, dtype=torch.float64, device=targets.device)


def _spread(part: Ints, most: int | None) -> Ints:
    """At most so many places of a part."""
    if most is None or len(part) <= most:
        return part
    return part[np.linspace(0, len(part) - 1, most).astype(np.int64)]


def worst_tenth(values: Tensor, metric: MetricRecord) -> Tensor:
    """The mean over the tenth of the clients with the worst values; NaN is not among them."""
    sign = 1 if metric.best == "high" else -1
    return sign * torch.sort(sign * values).values[: -(-len(values) // 10)].mean()


def client_metrics(metrics: Mapping[str, Metric], on: EvaluateOn) -> tuple[MetricRecord, ...]:
    """All metrics of a run: those of the problem, and what is added for clients.

    `NAME_clients` is the mean over clients, each with the same weight, and `NAME_worst` the mean
    over the tenth that is served worst. Without a test set NAME itself is the mean over clients.
    """
    own = recorded(metrics)
    known = {metric.name for metric in own}
    endings = {"test": (), "clients": ("worst",), "both": ("clients", "worst")}[on]
    more = [
        MetricRecord(f"{metric.name}_{ending}", metric.best, metric.unit)
        for metric in own or (LOSS,)
        for ending in endings
    ]
    for added in more:
        rule = f"is the name of a column that evaluate_on={on} adds; choose another name"
        require(added.name not in known, "metrics", added.name, rule)
    return (*own, *more)
