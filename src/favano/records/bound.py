"""`bound.csv`: the theory beside a run, one line per evaluation and seed."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from favano.records.table import from_csv, to_csv


class BoundRow(NamedTuple):
    """One evaluation of a run beside the theory; infinite where there is no bound."""

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
    largest_rate: float  # the largest for which the theorem holds
    smoothness: float  # L; this and the constants below are the largest seen so far
    noise: float  # sigma
    dissimilarity: float  # G
    gap: float  # F


bounds_to_csv = partial(to_csv, BoundRow)
bounds_from_csv = partial(from_csv, BoundRow)
