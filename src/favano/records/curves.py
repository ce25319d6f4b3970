"""`curves.csv`: mean curves over the seeds behind a figure, one line per point of a curve."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from favano.records.table import from_csv, to_csv


class CurvePoint(NamedTuple):
    """One evaluation of a curve: means over seeds, and one standard deviation below and above."""

    reading: str
    algorithm: str
    column: str
    seeds: int  # how many the means are over
    time: float  # simulated, in units of time
    server_steps: float
    local_steps: float
    accuracy: float  # share of the test set, 0 to 1
    accuracy_low: float
    accuracy_high: float
    loss: float
    loss_low: float
    loss_high: float
    variance: float
    variance_low: float
    variance_high: float


def curves_to_csv(points: Iterable[CurvePoint]) -> str:
    """Points as `curves.csv`, to six significant digits."""
    return to_csv(CurvePoint, points, digits=6)


def curves_from_csv(text: str) -> list[CurvePoint]:
    """The points of a `curves.csv`."""
    return from_csv(CurvePoint, text)
