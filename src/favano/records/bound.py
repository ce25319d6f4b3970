"""`bound.csv`: the theory beside a run, one line per evaluation and seed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from favano.records.table import from_csv, to_csv


class BoundRow(NamedTuple):
    """One evaluation of a run beside the theory; infinite where the theory says nothing."""

    seed: int
    time: float  # simulated, in units of time
    server_step: int  # T
    gradient: float  # ||grad f(mu_T)||^2
    mean_gradient: float  # (1/T) sum_{t<T} ||grad f(mu_t)||^2, from the evaluations
    potential: float  # Phi_T
    potential_bound: float
    bound_short: float
    bound_full: float
    bound_assembled: float
    learning_rate: float  # eta of the run
    largest_rate: float  # up to which the theorem holds
    smoothness: float  # L, the largest seen so far, as the others
    noise: float  # sigma
    dissimilarity: float  # G
    gap: float  # F


def bounds_to_csv(rows: Iterable[BoundRow]) -> str:
    """Rows as `bound.csv`; floats in the shortest form that reads back the same."""
    return to_csv(BoundRow, rows)


def bounds_from_csv(text: str) -> list[BoundRow]:
    """The inverse of `bounds_to_csv`."""
    return from_csv(BoundRow, text)
