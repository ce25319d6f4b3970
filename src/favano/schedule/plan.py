"""Makes a schedule from a contact policy."""

from __future__ import annotations

import math

import numpy as np

from favano.errors import need
from favano.schedule.adaptive import Unrolling
from favano.schedule.arrival import unroll_arrival
from favano.schedule.barrier import unroll_barrier
from favano.schedule.course import Course, Foreseen
from favano.schedule.policies import Adaptive, Arrival, Barrier, Policy, Poll, Window
from favano.schedule.poll import unroll_poll
from favano.schedule.schedule import Schedule
from favano.schedule.window import unroll_window
from favano.timing import Fleet

_MOST = 10**9  # server steps: more than can be planned


def plan(policy: Policy, fleet: Fleet, *, horizon: float, seed: int) -> Schedule:
    """Unroll a policy in virtual time, for this fleet and seed, up to the horizon.

    For an adaptive policy this is a forecast in which all jobs keep their first length.

    >>> from favano.timing import two_speeds
    >>> plan(Poll(selected=20, local_steps=20), two_speeds(100), horizon=5000, seed=0).updates
    714
    """
    need(horizon > 0, "horizon", horizon, "need a positive time")
    shortest = _shortest_step(policy, fleet)
    rule = f"need at most {_MOST:,} server steps, which last {shortest:.3g} or more here"
    need(horizon <= _MOST * shortest, "horizon", horizon, rule)
    match policy:
        case Poll():
            return unroll_poll(policy, fleet, horizon, seed)
        case Barrier():
            return unroll_barrier(policy, fleet, horizon, seed)
        case Arrival():
            return unroll_arrival(policy, fleet, horizon, seed)
        case Window():
            return unroll_window(policy, fleet, horizon, seed)
        case Adaptive():
            unchanged = Arrival(
                buffer=1,
                local_steps=policy.local_steps,
                hand_out="flush",
                interaction_time=policy.interaction_time,
                latency=policy.latency,
            )
            return unroll_arrival(unchanged, fleet, horizon, seed)


def _shortest_step(policy: Policy, fleet: Fleet) -> float:
    """How long the server steps of the fastest client last, about."""
    if isinstance(policy, Poll | Window):
        return policy.period
    work = policy.local_steps * float(fleet.mean.min())
    if isinstance(policy, Barrier):
        work = min(work, policy.deadline or work)
    elif policy.latency == "none":
        return work
    return work + policy.interaction_time


def expected_jobs(policy: Policy, fleet: Fleet, horizon: float) -> float:
    """About how many jobs a plan has, which is what it costs."""
    work = policy.local_steps * fleet.mean  # (n,)
    match policy:
        case Poll():
            return policy.selected * horizon / policy.period
        case Barrier():
            longest = min(float(work.max()), policy.deadline or math.inf)
            return policy.selected * horizon / (longest + policy.interaction_time)
        case Window():
            return float((horizon / np.maximum(work, policy.period)).sum())
        case Arrival():
            at_work = policy.concurrency or fleet.clients
            pause = policy.interaction_time if policy.latency == "server" else 0.0
            by_server = policy.buffer * horizon / pause if pause else math.inf
            return min(at_work * float((horizon / work).mean()), by_server)
        case Adaptive():
            return float((horizon / work).sum())


def course(
    schedule: Schedule, policy: Policy, fleet: Fleet, *, horizon: float, seed: int
) -> Course:
    """The course of a run: the planned schedule or, for an adaptive policy, one that grows."""
    if isinstance(policy, Adaptive):
        return Unrolling(policy, fleet, horizon, seed)
    return Foreseen(schedule)
