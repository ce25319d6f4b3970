"""The metrics of a problem, as files describe them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

Best: TypeAlias = Literal["high", "low"]


@dataclass(frozen=True)
class MetricRecord:
    """A number that models are judged by: its name, the better direction, and its unit.

    With the unit `%` the number is a share of one, which is shown in per cent.
    """

    name: str
    best: Best = "high"
    unit: str = ""

    def better(self, value: float, other: float) -> bool:
        """Whether one value is better than another.

        >>> LOSS.better(0.1, 0.2), ACCURACY.better(0.1, 0.2)
        (True, False)
        """
        return value > other if self.best == "high" else value < other


ACCURACY: Final = MetricRecord("accuracy", unit="%")
LOSS: Final = MetricRecord("loss", best="low")
OF_LOSS: Final = (  # numbers over clients in a problem without metrics
    MetricRecord("loss_clients", best="low"),
    MetricRecord("loss_worst", best="low"),
)


def leading(metrics: tuple[MetricRecord, ...]) -> MetricRecord:
    """The metric that methods are compared by: the first, or the loss if there is none.

    >>> leading((ACCURACY,)).name, leading(OF_LOSS).name
    ('accuracy', 'loss')
    """
    return next((metric for metric in metrics if metric not in OF_LOSS), LOSS)


def undescribed(names: tuple[str, ...]) -> tuple[MetricRecord, ...]:
    """Metrics of which only the names are known."""
    return tuple(ACCURACY if name == ACCURACY.name else MetricRecord(name) for name in names)
