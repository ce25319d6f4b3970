"""Plans `Rounds`, which end when the last client update waited for is here."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from favano.policies import Rounds, Selector
from favano.rng import Stream, bits
from favano.schedule.draws import (
    client_steps,
    draws_used,
    job_ends,
    selected_clients,
    step_ends,
    total_before,
)
from favano.schedule.schedule import Schedule
from favano.timing import ClientSpeeds, Trace
from favano.timing.ties import at_or_before, before, in_order, latest, not_past
from favano.types import Floats, Ints

_ROUNDS = 64  # rounds planned at once


class _Rounds(NamedTuple):
    """A block of rounds: (rounds, s) arrays, times counted from the start of each round."""

    client: Ints
    counted: npt.NDArray[np.bool_]  # the client update is used
    steps: Ints  # made by the end of the round
    answer: Floats  # when the client has made its K steps
    used: Ints  # draws of its step times
    length: Floats  # (rounds,)


def plan_rounds(policy: Rounds, fleet: ClientSpeeds, horizon: float, seed: int) -> Schedule:
    """All rounds that start before the horizon; the last may end after it.

    A round that starts by the horizon and makes no update still has its jobs.
    """
    planned: list[_Rounds] = []
    most = client_steps(policy, fleet)
    selector = Selector(policy.selection, seed)
    jobs, place = np.zeros((2, fleet.clients), dtype=np.int64)  # jobs so far, and the next draw
    # Where a recording goes on depends on how far the client came in the round before.
    at_once, passed = 1 if isinstance(fleet.law, Trace) else _ROUNDS, 0.0
    while passed <= latest(horizon):
        client = selected_clients(fleet, selector, policy.selected, at_once)
        planned.append(_plan(policy, fleet, most, client, jobs, place, seed))
        passed += float(planned[-1].length.sum())
        client = client.ravel()
        jobs += np.bincount(client, minlength=fleet.clients)
        place += np.bincount(client, planned[-1].used.ravel(), fleet.clients).astype(np.int64)
    *columns, _, length = map(np.concatenate, zip(*planned, strict=True))
    time = not_past(np.cumsum(length), horizon)
    start = np.append(0.0, time[:-1])
    kept = int(np.sum(time <= horizon if policy.drop_last else before(start, horizon)))
    begun = max(kept, int(np.sum(start <= horizon)))
    client, counted, steps, answer = (column[:begun].ravel() for column in columns)
    played = np.repeat(np.arange(begun), policy.selected)  # the round that each job is part of
    used_by = np.where(counted, np.minimum(played, kept), kept)
    order = np.argsort(used_by, kind="stable")
    wasted = np.bincount(played, np.where(counted, 0, steps), minlength=begun)[:kept]
    # Who is stopped before the K steps are made stands still until the round ends.
    finish = np.where(steps < most[client], time[played], start[played] + answer)
    finish = np.minimum(finish, time[played])
    finish[(played >= kept) & ~at_or_before(finish, horizon)] = np.inf
    return Schedule(
        clients=fleet.clients,
        local_steps=most,
        time=time[:kept],
        wasted_steps=wasted.astype(np.int64),
        client=client[order],
        steps=steps[order],
        start_version=(played - 1)[order],
        used_by=used_by[order],
        first_step=total_before(client, steps)[order],
        begin=start[played][order],
        finish=finish[order],
    )


def _plan(
    policy: Rounds, fleet: ClientSpeeds, most: Ints, asked: Ints, jobs: Ints, place: Ints, seed: int
) -> _Rounds:
    shape, client = asked.shape, asked.ravel()
    earlier = total_before(client, np.ones_like(client))  # jobs in this block
    number, steps = jobs[client] + earlier, most[client]
    draws = np.ones_like(steps) if policy.round_time == "one-draw" else steps
    ends = _step_ends(policy, fleet, client, place[client] + draws * earlier, steps, seed)
    answer = job_ends(ends, steps).reshape(shape)
    counted = np.ones(shape, dtype=bool)
    if policy.wait_for is not None:
        # Integer durations tie often: a random key decides, not the client's number.
        tie = bits(seed, Stream.ASSIGNMENT, fleet.streams[client], number).reshape(shape)
        arrival = np.array([in_order(time) for time in answer.ravel().tolist()]).reshape(shape)
        counted = np.argsort(np.lexsort((tie, arrival)), axis=1) < policy.wait_for
    last = np.where(counted, answer, 0.0).max(axis=1)
    if policy.deadline is not None:
        last = np.minimum(last, policy.deadline)
    done = at_or_before(ends.reshape(*shape, -1), last[:, None, None]).sum(axis=2)
    in_time = counted & at_or_before(answer, last[:, None])
    counted = in_time | (counted & (done > 0)) if policy.at_deadline == "take" else in_time
    made = np.where(in_time, steps.reshape(shape), done)
    worked = np.repeat(last, policy.selected)
    used = np.minimum(draws_used(fleet, ends, steps, worked), draws)
    length = last + policy.interaction_time
    return _Rounds(asked, counted, made, answer, used.reshape(shape), length)


def _step_ends(
    policy: Rounds, fleet: ClientSpeeds, client: Ints, first: Ints, steps: Ints, seed: int
) -> Floats:
    """When each of a job's K steps ends, (m, largest K), by the reading of `round_time`."""
    if policy.round_time == "sum":
        return step_ends(fleet, client, first, steps, seed)
    step = fleet.mean[client]
    if policy.round_time == "one-draw":
        step = fleet.durations(seed, client, first)
    number = np.arange(1, steps.max() + 1)
    return np.where(number <= steps[:, None], step[:, None] * number, np.inf)
