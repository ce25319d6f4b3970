"""The mean number of windows that a job of K steps lasts: E[ceil(T / dt)], T = D_1 + ... + D_K.

    E[ceil(T / dt)] = sum_{k >= 0} P(T > k dt) = E[T] / dt + E[psi(T)],
    psi(t) = ceil(t / dt) - t / dt.

The first form is exact for geometric (binomial) and exponential (gamma) steps. psi has period dt,
so for any other law of mean m the second form needs only the law of T modulo dt, a K-fold circular
convolution. By the renewal theorem a client whose jobs start and are used at ticks takes part in
one of E[ceil(T / dt)] ticks (Fraboni, Vidal, Kameni, Lorenzi 2023, FedFix).
"""

from __future__ import annotations

import numpy as np
import scipy

from favano.errors import BadInput, require
from favano.policies import Windowed
from favano.schedule.draws import client_steps
from favano.theory.durations import job_laws, lognormal_cumulative, recorded_jobs
from favano.timing import (
    ClientSpeeds,
    Deterministic,
    Exponential,
    Geometric,
    LogNormal,
    StepLaw,
    Trace,
)
from favano.timing.ties import periods_until, whole_periods
from favano.types import Floats

_TAIL = 1e-15  # probability below which the sum ends
_CELLS = 2048  # of a window, for laws without a closed form
_TURNS = 512  # windows over which a step's law is resolved; beyond, it is uniform within a window


def expected_windows(policy: Windowed, fleet: ClientSpeeds) -> Floats:
    """E[ceil(T_i / dt)] of every client, (n,), computed once for each distinct speed and K.

    >>> from favano.timing import two_speeds
    >>> fleet = two_speeds(2, fast_fraction=0.5, law=Deterministic())
    >>> sorted(expected_windows(Windowed(period=7.0, local_steps=2), fleet).tolist())
    [1.0, 5.0]
    """
    rule = "leaves the windows of a job without an exact law; use window_weights=identical"
    require(fleet.conditions.always_there, "fleet", "absence or faults", rule)
    windows = np.empty(fleet.clients)
    for members, law, mean, steps in job_laws(fleet, fleet.law, client_steps(policy, fleet)):
        windows[members] = job_windows(law, mean, steps, policy.period)
    return windows


def job_windows(law: StepLaw, mean: float, local_steps: int, period: float) -> float:
    """E[ceil(T / dt)] of a job of K steps of the given mean; a trace must have one client.

    >>> round(job_windows(Geometric(), 2.0, 1, 1.0), 9), job_windows(Deterministic(), 2.0, 4, 7.0)
    (2.0, 2.0)
    """
    match law:
        case Deterministic():
            return float(periods_until(local_steps * mean, period))
        case Geometric() | Exponential():
            return _summed(law, mean, local_steps, period)
        case LogNormal():
            return _circular(law, mean, local_steps, period)
        case Trace():
            length = recorded_jobs(law.rows[0], local_steps)[:, -1]
            return float(periods_until(length, period).mean())
        case _:
            raise BadInput("step_law", law, "has no known law of a job's duration")


def _summed(law: Geometric | Exponential, mean: float, local_steps: int, period: float) -> float:
    """sum_k P(T > k dt), where T > k dt if fewer than K steps end within k windows."""
    total, first = 0.0, 0
    size = int(np.ceil(2 * local_steps * mean / period)) + 16
    while True:
        window = np.arange(first, first + size, dtype=np.float64) * period
        if isinstance(law, Geometric):
            spare = whole_periods(window, 1.0) - local_steps  # units beyond the shortest job
            few = scipy.special.betainc(np.maximum(spare, 0.0) + 1, local_steps, 1.0 - 1.0 / mean)
            longer = np.where(spare >= 0, few, 1.0)
        else:
            longer = scipy.special.gammaincc(local_steps, window / mean)
        total += float(longer.sum())
        if longer[-1] < _TAIL:
            return total
        first += size


def _circular(law: LogNormal, mean: float, local_steps: int, period: float) -> float:
    """K m / dt + E[psi(T)], with the law of T modulo dt on a grid of cells."""
    width = period / _CELLS
    edge: Floats = np.arange(_TURNS * _CELLS + 1, dtype=np.float64) * width
    with np.errstate(divide="ignore"):
        below = lognormal_cumulative(edge, mean, law.spread)
    step = np.diff(below).reshape(_TURNS, _CELLS).sum(axis=0) + (1.0 - below[-1]) / _CELLS
    job = scipy.fft.irfft(scipy.fft.rfft(step) ** local_steps, _CELLS)
    middle = (np.arange(_CELLS) + local_steps / 2) % _CELLS  # a step's mass is at mid-cell
    psi = np.where(middle == 0, 0.5, 1.0 - middle / _CELLS)
    return local_steps * mean / period + float(job @ psi)
