"""What is measured along a run: one row an evaluation, against three clocks and the traffic."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from io import StringIO
from math import isfinite
from typing import NamedTuple


class Row(NamedTuple):
    """The state of a run at one moment of simulated time."""

    seed: int
    time: float
    server_step: int
    local_steps: int  # made by clients whose job is over, lost ones included
    bits_up: int
    bits_down: int
    loss: float
    accuracy: float
    variance: float  # sum_i ||w_i - w||^2 over the models the clients started from
    potential: float  # ||w - mu||^2 + sum_i ||w_i - mu||^2
    contributed_steps: int  # local steps that went into the server model


def diverged(row: Row) -> bool:
    """Whether the loss or the variance is not finite."""
    return not (isfinite(row.loss) and isfinite(row.variance))


def up_to(rows: Iterable[Row], horizon: float) -> list[Row]:
    """The rows at or before the horizon.

    A synchronous round that starts before the horizon is finished after it, and so may a queue at
    the server; the last row is then of a later model than those of other methods.
    """
    return [row for row in rows if row.time <= horizon]


def to_csv(rows: Iterable[Row]) -> str:
    """Rows as CSV with a header; floats in the shortest form that reads back the same."""
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(Row._fields)
    writer.writerows(rows)
    return text.getvalue()


def from_csv(text: str) -> list[Row]:
    """The inverse of `to_csv`."""
    whole = {"seed", "server_step", "local_steps", "bits_up", "bits_down", "contributed_steps"}
    return [
        Row._make(int(row[name]) if name in whole else float(row[name]) for name in Row._fields)
        for row in csv.DictReader(StringIO(text))
    ]
