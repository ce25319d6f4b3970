"""`curves.csv`: the mean curves of a figure, one line per point of a curve."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from favano.records.table import from_csv, to_csv


class CurvePoint(NamedTuple):
    """One evaluation: means over seeds, and one standard deviation below and above."""

    reading: str
    algorithm: str
    column: str
    seeds: int  # how many are averaged
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


curves_to_csv = partial(to_csv, CurvePoint, digits=6)
curves_from_csv = partial(from_csv, CurvePoint)
