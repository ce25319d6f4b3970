"""Plans `Windowed`: a tick every period, at which all client updates that have arrived are used."""

from __future__ import annotations

import numpy as np

from favano.policies import Windowed
from favano.schedule.draws import client_steps, job_ends, step_ends, total_before
from favano.schedule.schedule import Schedule
from favano.timing import ClientSpeeds
from favano.timing.ties import at_or_before, not_past, periods_until, whole_periods


def plan_windowed(policy: Windowed, fleet: ClientSpeeds, horizon: float, seed: int) -> Schedule:
    """All ticks up to the horizon; a tick without client updates leaves the model as it is."""
    ticks = int(whole_periods(horizon, policy.period))
    client = np.argsort(fleet.streams)
    started = np.zeros(fleet.clients, dtype=np.int64)  # tick at which the current job began
    most, number, jobs = client_steps(policy, fleet), 0, []
    while len(client):
        steps = most[client]
        length = job_ends(step_ends(fleet, client, number * steps, steps, seed), steps)
        finish = started * policy.period + length
        used = started + np.maximum(1, periods_until(length, policy.period).astype(np.int64))
        jobs.append((client, started, used, finish))
        back = used <= ticks
        client, started = client[back], used[back]
        number += 1
    who, start, end, finish = map(np.concatenate, zip(*jobs, strict=True))
    time = not_past(np.arange(1.0, ticks + 1) * policy.period, horizon)
    finish = np.where(at_or_before(finish, horizon), finish, np.inf)
    end = np.minimum(end, ticks + 1)  # later client updates are never used
    finish = np.minimum(finish, np.append(time, np.inf)[end - 1])
    order = np.lexsort((fleet.streams[who], end))
    steps = most[who[order]]
    return Schedule(
        clients=fleet.clients,
        local_steps=most,
        time=time,
        wasted_steps=np.zeros(ticks, dtype=np.int64),
        client=who[order],
        steps=steps,
        start_version=start[order] - 1,
        used_by=end[order] - 1,
        first_step=total_before(who[order], steps),
        begin=start[order] * policy.period,
        finish=finish[order],
    )
