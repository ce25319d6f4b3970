"""Makes a schedule from a policy."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from favano.errors import require
from favano.policies import Buffered, Policy, Polling, Rounds, Uniform, Windowed
from favano.policies.policy import check_selected
from favano.schedule.draws import client_steps
from favano.schedule.polling import plan_polling
from favano.schedule.present_polling import plan_present_polling
from favano.schedule.rounds import plan_rounds
from favano.schedule.schedule import Schedule
from favano.schedule.virtual_clock import drive
from favano.schedule.windowed import plan_windowed
from favano.timing import ClientSpeeds

_MOST = 10**9  # server steps: more than can be planned


def plan(policy: Policy, fleet: ClientSpeeds, *, horizon: float, seed: int) -> Schedule:
    """Plan a policy in virtual time, for this fleet and seed, up to the horizon.

    For a policy that sees values this is a forecast in which all of them are NaN.

    >>> from favano.timing import two_speeds
    >>> plan(Polling(selected=20, local_steps=20), two_speeds(100), horizon=5000, seed=0).updates
    714
    """
    if isinstance(policy, Polling | Rounds):
        check_selected(policy.selected, fleet.clients)
        chosen = policy.selected < fleet.clients or policy.selection == Uniform()
        rule = f"has no effect: all {fleet.clients} clients are selected; remove it"
        require(chosen, "selection", policy.selection, rule)
    require(horizon > 0, "horizon", horizon, "need a positive time")
    shortest = _shortest_step(policy, fleet)
    rule = f"need at most {_MOST:,} server steps, which last {shortest:.3g} or more here"
    require(horizon <= _MOST * shortest, "horizon", horizon, rule)
    always_there = fleet.conditions.always_there
    match policy:
        case Polling() if always_there:
            return plan_polling(policy, fleet, horizon, seed)
        case Polling():
            _check_readings(
                policy,
                "interruption",
                "starts_at_zero",
                "idle_in_interaction",
                "strict_ties",
                "overrun",
                "step_count",
            )
            policy = replace(policy, asked=policy.asked or "now")
            if policy.asks and fleet.conditions.only_absence:
                return plan_present_polling(policy, fleet, horizon, seed)
        case Rounds() if always_there:
            return plan_rounds(policy, fleet, horizon, seed)
        case Rounds():
            _check_readings(policy, "round_time", "drop_last")
        case Windowed() if always_there:
            return plan_windowed(policy, fleet, horizon, seed)
        case Buffered():
            _check_buffered(policy, fleet)
            jobs = expected_jobs(policy, fleet, horizon)
            return drive(policy, fleet, horizon, seed, jobs=jobs)
    return drive(policy, fleet, horizon, seed)


def _check_readings(policy: Policy, *names: str) -> None:
    """Refuse readings of the clock that are about fleets that are always there."""
    for name in names:
        rule = "is for fleets that are always there, with messages that take no time; remove it"
        require(name not in policy.given, name, getattr(policy, name), rule)


def _check_buffered(policy: Buffered, fleet: ClientSpeeds) -> None:
    """Refuse a buffer that this fleet cannot fill."""
    concurrency = fleet.clients if policy.concurrency is None else policy.concurrency
    rule = f"need 1..clients ({fleet.clients})"
    require(concurrency <= fleet.clients, "concurrency", concurrency, rule)
    if policy.hand_out == "flush":
        rule = f"need 1..{concurrency}, the clients at work, or the buffer never fills"
        require(policy.buffer <= concurrency, "buffer", policy.buffer, rule)


def _shortest_step(policy: Policy, fleet: ClientSpeeds) -> float:
    """How long the server steps of the fastest client last, about."""
    if isinstance(policy, Polling | Windowed):
        return policy.period
    work = float((client_steps(policy, fleet) * fleet.mean).min())
    if isinstance(policy, Rounds):
        work = min(work, policy.deadline or work)
    return work + policy.server_pause + policy.client_pause


def expected_jobs(policy: Policy, fleet: ClientSpeeds, horizon: float) -> float:
    """About how many jobs a plan has, which is what it costs."""
    work = client_steps(policy, fleet) * fleet.mean  # (n,)
    if (links := fleet.conditions.links) is not None:
        work = work + links.down + links.up
    match policy:
        case Polling():
            return policy.selected * horizon / policy.period
        case Rounds():
            longest = min(float(work.max()), policy.deadline or math.inf)
            return policy.selected * horizon / (longest + policy.interaction_time)
        case Windowed():
            return float((horizon / np.maximum(work, policy.period)).sum())
        case Buffered(check_in_rate=float(rate)):
            return rate * horizon
        case Buffered():
            at_work, pause = policy.concurrency or fleet.clients, policy.server_pause
            by_server = policy.buffer * horizon / pause if pause else math.inf
            return min(at_work * float((horizon / work).mean()), by_server)
    return float((horizon / work).sum())  # as if all clients were always at work
