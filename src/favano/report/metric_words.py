"""Values of metrics in words: per cent for shares of one, three significant digits for others."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

from favano.records import ACCURACY, MetricRecord, leading
from favano.report.table import ValueSpread, over
from favano.report.wording import DASH, fixed, percent, signed, significant

_PERCENT = "%"


def heading(metric: MetricRecord) -> str:
    """Name and unit.

    >>> heading(ACCURACY), heading(MetricRecord("mae", "low", "kW")), heading(MetricRecord("f1"))
    ('accuracy, %', 'mae, kW', 'f1')
    """
    return f"{metric.name}, {metric.unit}" if metric.unit else metric.name


def number(metric: MetricRecord, value: float) -> str:
    """A value without its unit."""
    return percent(value) if metric.unit == _PERCENT else significant(value)


def amount(metric: MetricRecord, value: float) -> str:
    """A value with its unit.

    >>> amount(ACCURACY, 0.912), amount(MetricRecord("mae", "low", "kW"), 0.03)
    ('91.2 %', '0.03 kW')
    """
    return f"{number(metric, value)} {metric.unit}".rstrip()


def stated(metric: MetricRecord, value: float) -> str:
    """A value in a sentence."""
    return _named(metric, amount(metric, value))


def mean_of(values: Sequence[float], metrics: tuple[MetricRecord, ...]) -> str:
    """The mean over seeds of the leading metric, with its deviation; empty without any.

    >>> mean_of([0.912], (ACCURACY,)), mean_of([0.9, 0.92], (ACCURACY,))
    ('91.20 %', '91.0 ± 1.4 %')
    """
    if not values:
        return ""
    metric = leading(metrics)
    if len(values) > 1:
        return _named(metric, f"{with_spread(metric, over(values))} {metric.unit}".rstrip())
    return f"{100 * values[0]:.2f} %" if metric == ACCURACY else stated(metric, values[0])


def gap(metric: MetricRecord, difference: float) -> str:
    """The size of a difference.

    >>> gap(ACCURACY, -0.01), gap(ACCURACY, 0.023), gap(MetricRecord("mae", "low", "kW"), -0.5)
    ('1.0 point', '2.3 points', '0.5 kW')
    """
    size = number(metric, abs(difference))
    if metric.unit != _PERCENT:
        return f"{size} {metric.unit}".rstrip()
    return f"{size} point" if size == "1.0" else f"{size} points"


def gap_unit(metric: MetricRecord) -> str:
    """The unit of differences."""
    return "points" if metric.unit == _PERCENT else metric.unit


def with_spread(metric: MetricRecord, spread: ValueSpread) -> str:
    """Mean and standard deviation over seeds."""
    if not isfinite(spread.mean):
        return number(metric, spread.mean)
    return f"{number(metric, spread.mean)} ± {_deviation(metric, spread)}"


def signed_with_spread(metric: MetricRecord, spread: ValueSpread) -> str:
    """A difference with its sign and standard deviation."""
    if not isfinite(spread.mean):
        return number(metric, spread.mean)
    if metric.unit == _PERCENT:
        return f"{signed(100 * spread.mean)} ± {_deviation(metric, spread)}"
    sign = "+" if spread.mean > 0 else ""
    return f"{sign}{significant(spread.mean)} ± {_deviation(metric, spread)}"


def interval_words(metric: MetricRecord, spread: ValueSpread) -> str:
    """The interval of a difference; empty with too few seeds.

    >>> interval_words(ACCURACY, ValueSpread(0.01, 0.005, 5))
    '+0.4 to +1.6 points'
    """
    if (ends := spread.interval) is None:
        return ""
    if metric.unit == _PERCENT:
        words = [signed(100 * end) for end in ends]
    else:
        words = [f"{'+' if end > 0 else ''}{significant(end)}" for end in ends]
    return f"{' to '.join(words)} {gap_unit(metric)}".rstrip()


def level(metric: MetricRecord, value: float, other: float) -> bool:
    """Whether two values cannot be told apart as they are printed."""
    if metric.unit == _PERCENT:
        return fixed(100 * abs(value - other), 1) == "0.0"
    return number(metric, value) == number(metric, other)


def _named(metric: MetricRecord, words: str) -> str:
    """Words with the name of the metric, which accuracies do not need."""
    return words if metric == ACCURACY else f"{metric.name} {words}"


def _deviation(metric: MetricRecord, spread: ValueSpread) -> str:
    """A standard deviation; one seed has none."""
    return DASH if spread.count < 2 else number(metric, spread.deviation)
