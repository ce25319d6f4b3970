"""The time that j local steps take: P(D_1 + ... + D_j <= t) for any law of the step time D.

Exact for geometric steps (a binomial tail), exponential ones (a Poisson tail), constant ones and
recorded ones (a mean over the recording's jobs); a j-fold convolution on a grid for every other law
whose distribution function is known.
"""

from __future__ import annotations

from math import gcd
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
import scipy

from favano.errors import BadInput, require
from favano.schedule.draws import alike_jobs
from favano.timing import (
    ClientSpeeds,
    Deterministic,
    Exponential,
    Geometric,
    LogNormal,
    StepLaw,
    Trace,
)
from favano.timing.ties import at_or_before, before, periods_until, whole_periods
from favano.types import Floats, Ints

_MOST_CELLS = 1 << 18  # of a grid
_ALL_DONE = 1e-9  # the grid ends where sums are longer with this probability


@runtime_checkable
class Cumulative(Protocol):
    """A law of your own whose distribution function is known."""

    def cumulative(self, duration: Floats, mean: float) -> Floats:
        """P(D <= duration) for a client whose steps last `mean` on average."""


class JobLaw(NamedTuple):
    """Clients whose jobs have the same law."""

    members: Ints
    law: StepLaw  # of a step; a trace has one client
    mean: float
    steps: int  # K


def job_laws(fleet: ClientSpeeds, law: StepLaw, steps: Ints) -> list[JobLaw]:
    """The laws of jobs of so many steps, (n,), each with the clients that share it."""
    number = alike_jobs(fleet.alike if law is fleet.law else fleet.groups, steps)
    order = np.argsort(number, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(number[order])) + 1)
    return [
        JobLaw(who, _law_of(who[0], fleet, law), float(fleet.mean[who[0]]), int(steps[who[0]]))
        for who in groups
    ]


def _law_of(client: int, fleet: ClientSpeeds, law: StepLaw) -> StepLaw:
    """The law of one client's steps: of a recording, its own lines."""
    return Trace((law.rows[fleet.streams[client]],)) if isinstance(law, Trace) else law


def finished(
    law: StepLaw, mean: float, time: Floats, steps: int, *, strict: bool = False, cell: float
) -> Floats:
    """P(D_1 + ... + D_j <= t) for each time t >= 0 in ascending order and j = 1..steps, (t, j).

    Args:
        law: law of one step.
        mean: mean duration m of one step.
        time: times in ascending order.
        steps: the largest j.
        strict: < instead of <=.
        cell: width of the grid, for laws without a closed form.

    >>> finished(Exponential(), 2.0, np.array([2.0]), 2, cell=0.01).round(6).tolist()
    [[0.632121, 0.264241]]
    """
    check_law(law, mean)
    require(steps >= 1, "local_steps", steps, "need at least 1")
    j = np.arange(1, steps + 1)
    match law:
        case Geometric():
            trials = periods_until(time, 1.0) - 1 if strict else whole_periods(time, 1.0)
            return _binomial_tail(j, np.maximum(trials, 0)[:, None], 1.0 / mean)
        case Exponential():
            return np.asarray(scipy.special.pdtrc(j - 1, np.maximum(time, 0.0)[:, None] / mean))
        case Deterministic():
            in_time = before if strict else at_or_before
            return in_time(np.multiply(j, mean), time[:, None]).astype(np.float64)
        case Trace():
            in_time = before if strict else at_or_before
            jobs = recorded_jobs(law.rows[0], steps).T
            return np.stack([in_time(job, time[:, None]).mean(axis=1) for job in jobs], axis=1)
        case _:
            return _convolved(law, mean, time, steps, cell)


def check_law(law: StepLaw, mean: float) -> None:
    """Refuse a mean that the law cannot have, and laws without a finite mean.

    >>> check_law(Exponential(), float("inf"))
    Traceback (most recent call last):
    favano.errors.BadInput: step mean=inf: need a finite positive mean step time
    """
    good = bool(np.isfinite(mean) and mean > 0)
    require(good, "step mean", mean, "need a finite positive mean step time")
    law.check(np.array([mean]))
    if isinstance(law, Cumulative):
        place = np.concatenate([[0.0], mean * np.geomspace(1e-6, 1e9, 6000)])
        beyond = 1.0 - law.cumulative(place, mean)
        actual = float((beyond[:-1] + beyond[1:]) @ np.diff(place)) / 2  # E[D] = integral P(D > x)
        rule = f"its cumulative(duration, mean) does not have the finite mean {mean:g}"
        require(abs(actual / mean - 1) < 0.01, "step_law", law, rule)


def recorded_jobs(durations: Floats, local_steps: int) -> Floats:
    """When the steps of all different jobs of a recording end, which is repeated without end.

    The jobs follow each other without an interruption, K steps each: (jobs, K).
    """
    jobs = len(durations) // gcd(len(durations), local_steps)
    return np.cumsum(np.resize(durations, (jobs, local_steps)), axis=1)


def lognormal_cumulative(duration: Floats, mean: float, spread: float) -> Floats:
    """P(D <= duration) for log-normal steps of this mean."""
    return np.asarray(
        scipy.special.ndtr((np.log(duration) - np.log(mean) + spread**2 / 2) / spread)
    )


def _binomial_tail(successes: Ints, trials: Floats, chance: float) -> Floats:
    """P(Bin(trials, chance) >= successes), 0 if there are too few trials."""
    enough = successes <= trials
    tail = scipy.special.betainc(successes, np.where(enough, trials - successes + 1, 1.0), chance)
    return np.where(enough, tail, 0.0)


def _convolved(law: StepLaw, mean: float, time: Floats, steps: int, cell: float) -> Floats:
    """`finished` for any other law, from the convolution of its mass on a grid.

    Each place of the grid stands for the cell around it, so the mass below a time is interpolated
    between the cells' edges. Later times are read from longer and coarser grids, until all sums are
    reached.
    """
    reached = np.ones((len(time), steps))
    first, end = 0, 8.0 * steps * mean
    while first < len(time):
        end = min(end, float(time[-1]))
        width = max(cell, end / _MOST_CELLS)
        below = _sums(_mass(law, mean, int(end / width) + 2, width), steps)
        stop = int(np.searchsorted(time, end, side="right"))
        read = time[first:stop] / width - 0.5
        place = np.arange(-1, below.shape[1] - 1)
        reached[first:stop] = np.stack([np.interp(read, place, row) for row in below], axis=1)
        if 1.0 - below[-1, -1] < _ALL_DONE:
            break
        first, end = stop, 4 * end
    return np.clip(reached, 0.0, 1.0)


def _sums(mass: Floats, steps: int) -> Floats:
    """P(D_1 + ... + D_j <= place) for j = 1..steps and the places -1, 0, 1, ... of the grid."""
    size = scipy.fft.next_fast_len(2 * len(mass), real=True)
    factor = scipy.fft.rfft(mass, size)
    current = np.zeros(len(mass))
    current[0] = 1.0
    below = np.zeros((steps, len(mass) + 1))
    for row in below:
        current = scipy.fft.irfft(scipy.fft.rfft(current, size) * factor, size)[: len(mass)]
        np.cumsum(current, out=row[1:])
    return below


def _mass(law: StepLaw, mean: float, cells: int, cell: float) -> Floats:
    """P(D rounds to place k of the grid), k = 0..cells-1."""
    edge: Floats = (np.arange(cells, dtype=np.float64) + 0.5) * cell
    if isinstance(law, LogNormal):
        return np.diff(lognormal_cumulative(edge, mean, law.spread), prepend=0.0)
    if not isinstance(law, Cumulative):
        rule = "has no cumulative(duration, mean), so its step counts have no known law"
        raise BadInput("step_law", law, rule)
    return np.diff(law.cumulative(edge, mean), prepend=0.0)
