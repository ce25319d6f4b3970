"""Metrics: the numbers that models are judged by, besides the loss."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias, get_args

import torch
from torch.nn import functional

from favano.errors import require
from favano.records import OF_LOSS, Best, MetricRecord, RunRecord
from favano.records.history import Row
from favano.records.summary import MEAN_MODEL

if TYPE_CHECKING:
    from torch import Tensor

    Function: TypeAlias = Callable[[Tensor, Tensor], Tensor | float]

# Names of other columns, in files and in tables.
_TAKEN: Final = {
    *Row._fields, *RunRecord.__dataclass_fields__, *(metric.name for metric in OF_LOSS),
    "method", "difference", "gigabits", "seeds",
}  # fmt: skip


@dataclass(frozen=True)
class Metric:
    """A function of outputs and targets, and how to read its values.

    Args:
        function: of the outputs and targets of a batch; returns a number per sample, or the mean
            over the batch. Models are judged by the mean over all samples.
        best: `high` or `low`, which values are better.
        unit: is printed beside the values; `%`: values are shares of one, printed in per cent.
        whole: the function is called once, with the outputs and targets of all samples.
        then: is applied to the mean, as `torch.exp` for a perplexity.

    >>> Metric(functional.l1_loss, best="low", unit="kW").best
    'low'
    """

    function: Function
    best: Best = "high"
    unit: str = ""
    whole: bool = False
    then: Callable[[Tensor], Tensor | float] | None = None

    def __post_init__(self) -> None:
        rule = "need a function of outputs and targets"
        require(callable(self.function), "metric", self.function, rule)
        require(self.best in get_args(Best), "best", self.best, "need high or low")
        require(isinstance(self.unit, str), "unit", self.unit, "need a text")
        rule = "is applied to a mean over samples; a metric with whole=True has none"
        require(self.then is None or not self.whole, "then", self.then, rule)
        rule = "need a function of the mean"
        require(self.then is None or callable(self.then), "then", self.then, rule)


def _correct(output: Tensor, target: Tensor) -> Tensor:
    """Whether the class of each target has the largest output; classes are dimension 1."""
    predicted = output.argmax(dim=1)
    if predicted.shape != target.shape or target.is_floating_point():
        raise ValueError(f"needs classes, not targets of {target.dtype} and {tuple(target.shape)}")
    return predicted == target


accuracy: Final = Metric(_correct, unit="%")
"""The share of samples whose class has the largest output."""

perplexity: Final = Metric(functional.cross_entropy, best="low", then=torch.exp)
"""The exponential of the mean cross entropy, for sequences."""

OURS: Final = (accuracy, perplexity)


def as_metrics(given: Mapping[str, Metric | Function]) -> dict[str, Metric]:
    """Metrics by name; a plain function is one whose high values are better."""
    rule = 'need names with functions, as {"mae": favano.Metric(function, best="low")}'
    require(isinstance(given, Mapping), "metrics", type(given).__name__, rule)
    for name, metric in given.items():
        plain = isinstance(name, str) and name.isprintable() and bool(name.strip())
        require(plain, "metrics", repr(name), "need a text in one line as name")
        taken = name in _TAKEN or name.startswith(MEAN_MODEL)
        require(not taken, "metrics", name, "is another column; choose another name")
        require(callable(metric) or isinstance(metric, Metric), "metrics", name, rule)
    return {
        name: metric if isinstance(metric, Metric) else Metric(metric)
        for name, metric in given.items()
    }


def recorded(metrics: Mapping[str, Metric]) -> tuple[MetricRecord, ...]:
    """Metrics as files describe them."""
    return tuple(MetricRecord(name, metric.best, metric.unit) for name, metric in metrics.items())
