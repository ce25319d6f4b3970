"""Plans `Polling`: contacts every period; clients work from contact to contact."""

from __future__ import annotations

import numpy as np

from favano.policies import Polling, Selector
from favano.schedule.draws import (
    blocks,
    client_steps,
    draws_used,
    selected_clients,
    step_ends,
    total_before,
)
from favano.schedule.schedule import Schedule
from favano.timing import ClientSpeeds, Geometric, Trace
from favano.timing.ties import at_or_before, before, not_past, periods_until, whole_periods
from favano.types import Floats, Ints


def plan_polling(policy: Polling, fleet: ClientSpeeds, horizon: float, seed: int) -> Schedule:
    """All contacts up to the horizon, with the steps that each client has made by then."""
    selected, most = policy.selected, client_steps(policy, fleet)
    time = contact_times(policy, horizon)
    selector = Selector(policy.selection, seed)
    asked = selected_clients(fleet, selector, selected, len(time)).ravel()
    everyone = np.argsort(fleet.streams)  # one job per client is under way at the horizon
    client = np.concatenate([asked, everyone])
    used_by = np.concatenate(
        [np.repeat(np.arange(len(time)), selected), np.full_like(everyone, len(time))]
    )
    number = total_before(client, np.ones_like(client))
    base = _previous(client, used_by)
    begin = np.append(time, 0.0)[base]  # version -1 exists from time 0 on
    end = np.append(time, max([horizon, *time[-1:]]))[used_by]
    # In server steps: times of the clock are rounded, and so are their differences.
    tick = np.arange(len(time)) + (0 if policy.starts_at_zero else 1)
    passed = np.append(tick, end[-1] / policy.period)[used_by] - np.append(tick, 0)[base]
    steps = count_steps(policy, fleet, client, number, policy.window(passed), most, seed)
    return Schedule(
        clients=fleet.clients,
        local_steps=most,
        time=time,
        wasted_steps=np.zeros(len(time), dtype=np.int64),
        client=client,
        steps=steps,
        start_version=base,
        used_by=used_by,
        first_step=total_before(client, steps),
        begin=begin,
        finish=np.where(used_by < len(time), end, np.inf),
    )


def contact_times(policy: Polling, horizon: float) -> Floats:
    """Times of the contacts: R, 2R, ... up to the horizon, or from 0 on."""
    first = 0 if policy.starts_at_zero else 1
    counted = periods_until if policy.overrun else whole_periods
    last = int(counted(horizon, policy.period))
    return not_past(np.arange(first, last + 1, dtype=np.float64) * policy.period, horizon)


def _previous(client: Ints, used_by: Ints) -> Ints:
    """The update of the same client's contact before, -1 at its first contact."""
    order = np.argsort(client, kind="stable")
    before = np.concatenate([[-1], used_by[order][:-1]])
    before[np.diff(client[order], prepend=-1) != 0] = -1
    result = np.empty_like(used_by)
    result[order] = before
    return result


def count_steps(
    policy: Polling,
    fleet: ClientSpeeds,
    client: Ints,
    number: Ints,
    window: Floats,
    most: Ints,
    seed: int,
) -> Ints:
    """Steps that end within the window, K at most; all clients' jobs of one number at once."""
    if policy.step_count != "durations":
        Geometric().check(fleet.mean)
        literal = Geometric().draw(seed, fleet.streams[client], number, fleet.mean[client])
        literal -= policy.step_count == "literal-zero"
        return np.minimum(literal, most[client]).astype(np.int64)
    steps = np.empty_like(client)
    place = np.zeros(fleet.clients, dtype=np.int64)  # draw that the next job begins with
    pending = np.full(fleet.clients, np.nan)  # duration that the next job must begin with
    by_number = np.argsort(number, kind="stable")
    for rows in np.split(by_number, np.cumsum(np.bincount(number))[:-1]):
        for part in blocks(len(rows), int(most.max())):
            row = rows[part]
            who, room = client[row], window[row]
            ends = step_ends(fleet, who, place[who], most[who], seed)
            carried = pending[who]
            ends += np.where(np.isnan(carried), 0.0, carried - ends[:, 0])[:, None]
            in_time = before if policy.strict_ties else at_or_before
            done = in_time(ends, room[:, None]).sum(axis=1)
            steps[row] = done
            used = draws_used(fleet, ends, most[who], room)
            if policy.interruption != "redraw":
                pending[who] = _interrupted(policy, ends, most[who], done, room)
                used = done if isinstance(fleet.law, Trace) else used  # the next job goes on there
            place[who] += used
    return steps


def _interrupted(policy: Polling, ends: Floats, most: Ints, done: Ints, room: Floats) -> Floats:
    """Duration of the next job's first step, given the step under way; NaN if there is none."""
    starts = np.concatenate([np.zeros((len(ends), 1)), ends], axis=1)
    start = np.take_along_axis(starts, done[:, None], axis=1)[:, 0]
    under_way = np.minimum(done, most - 1)
    end = np.take_along_axis(ends, under_way[:, None], axis=1)[:, 0]
    left = end - room if policy.interruption == "resume" else end - start
    return np.where(done < most, left, np.nan)
