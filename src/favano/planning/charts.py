"""What plots show of availability and of jobs: samples of the clients of the first seed."""

from __future__ import annotations

import numpy as np

from favano.engine.outcomes import outcomes
from favano.planning.client_weights import speed_thirds
from favano.records import AvailabilityChart, JobChart
from favano.schedule import Schedule
from favano.timing import ClientSpeeds
from favano.timing.availability import Presence
from favano.types import Floats, Ints

_PARTS = 300  # of the time
_ROWS = 60  # clients whose availability is shown
_WORKERS = 40  # clients whose jobs are shown
_JOBS = 500
_TICKS = 300  # server steps


def availability_chart(presence: Presence, horizon: float) -> AvailabilityChart:
    """When clients are there: the share of all, and rows of an even sample by availability."""
    share, edges = presence.share(horizon), np.linspace(0.0, horizon, _PARTS + 1)
    order = np.argsort(-share, kind="stable")
    shown = order[_even(len(order), _ROWS)]
    there = np.diff(presence.time_there(shown[:, None], edges), axis=1) * _PARTS / horizon
    partly = np.where(there > 0, np.clip(np.rint(9 * there), 1, 8), 0)
    digits = np.where(there > 1 - 1e-9, 9, partly).astype(np.int64)
    return AvailabilityChart(
        horizon=horizon,
        share=rounded(_mean_share(presence, edges)),
        mean=float(share.mean()),
        median=float(np.median(share)),
        client=tuple(shown.tolist()),
        available=rounded(share[shown]),
        digits=tuple("".join(map(str, row)) for row in digits.tolist()),
    )


def _mean_share(presence: Presence, edges: Floats) -> Floats:
    """Mean share of all clients that are there, between these times."""
    time, _, comes = presence.changes()
    at = np.concatenate([[0.0], time, edges[-1:]])
    count = np.concatenate([[0], np.cumsum(np.where(comes, 1, -1))])
    total = np.concatenate([[0.0], np.cumsum(count * np.diff(at))])  # linear between changes
    there = np.diff(np.interp(edges, at, total)) / np.diff(edges)
    return np.asarray(there / presence.clients)


def job_chart(schedule: Schedule, fleet: ClientSpeeds, horizon: float) -> JobChart | None:
    """Jobs of clients that have some, from the beginning on, as many as a plot can show."""
    begun = np.flatnonzero(schedule.begin < horizon)
    if not len(begun):
        return None
    at_work = np.unique(schedule.client[begun])
    at_work = at_work[np.argsort(fleet.mean[at_work], kind="stable")]
    shown = at_work[_even(len(at_work), _WORKERS)]
    place = np.full(fleet.clients, -1)
    place[shown] = np.arange(len(shown))
    jobs = begun[place[schedule.client[begun]] >= 0]
    jobs = jobs[np.argsort(schedule.begin[jobs], kind="stable")]
    end = horizon if len(jobs) <= _JOBS else float(schedule.begin[jobs[_JOBS]])
    jobs = jobs[:_JOBS]
    made = schedule.time[schedule.time <= end]
    used_by = schedule.used_by[jobs]
    return JobChart(
        begin=0.0,
        end=end,
        horizon=horizon,
        at_work=len(at_work),
        client=tuple(shown.tolist()),
        speed=tuple(speed_thirds(fleet)[1][shown].tolist()),
        row=tuple(place[schedule.client[jobs]].tolist()),
        start=rounded(schedule.begin[jobs]),
        finish=rounded(np.minimum(schedule.finish[jobs], end)),
        steps=tuple(schedule.steps[jobs].tolist()),
        outcome=tuple(outcomes(schedule, horizon)[jobs].tolist()),
        used_by=tuple(np.where(used_by < schedule.updates, used_by + 1, 0).tolist()),
        server_steps=rounded(made[_even(len(made), _TICKS)]),
        server_steps_made=len(made),
    )


def _even(count: int, most: int) -> Ints:
    """All places, or an even sample of them."""
    return np.linspace(0, count - 1, min(count, most)).round().astype(np.int64)


def rounded(values: Floats) -> tuple[float, ...]:
    """Six significant digits, enough for a figure."""
    return tuple(float(f"{value:.6g}") for value in values)
