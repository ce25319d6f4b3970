"""The jobs under way at a given time, and the steps made so far."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from favano.errors import require
from favano.policies import Adaptive, Buffered, Policy, Polling, Rounds, Windowed
from favano.schedule.draws import draws_used, step_ends, total_before
from favano.schedule.schedule import Schedule
from favano.timing import ClientSpeeds, Trace
from favano.timing.ties import at_or_before
from favano.types import Ints


class UnderWay(NamedTuple):
    """One row per client that is at work."""

    job: Ints  # row of the schedule
    client: Ints
    steps: Ints  # made so far


def under_way(
    schedule: Schedule, policy: Policy, fleet: ClientSpeeds, *, time: float, seed: int
) -> UnderWay:
    """Jobs begun and not finished at `time`, with their progress.

    The step times are drawn again from (seed, client, number of the job), as in the plan.
    """
    check_progress_is_known(policy, fleet)
    begun, over = at_or_before(schedule.begin, time), at_or_before(schedule.finish, time)
    jobs = np.flatnonzero(begun & ~over)
    client = schedule.client[jobs]
    worked = time - schedule.begin[jobs] - _pause(policy)
    first = (
        schedule.first_step
        if isinstance(policy, Adaptive)
        else _first_draws(schedule, policy, fleet, seed)
    )  # the jobs of an adaptive policy differ in length: one draw per batch
    ends = step_ends(fleet, client, first[jobs], schedule.most_steps[jobs], seed)
    steps = np.minimum(at_or_before(ends, worked[:, None]).sum(axis=1), schedule.steps[jobs])
    return UnderWay(jobs, client, steps)


def _first_draws(schedule: Schedule, policy: Policy, fleet: ClientSpeeds, seed: int) -> Ints:
    """The draw with which each job begins: K per earlier job, or the next line of a recording."""
    order = np.lexsort((schedule.first_step, schedule.begin, schedule.client))
    number = np.empty_like(order)
    number[order] = total_before(schedule.client[order], np.ones_like(order))
    if not (isinstance(policy, Polling) and isinstance(fleet.law, Trace)):
        return number * schedule.most_steps
    first, place = np.zeros_like(number), np.zeros(fleet.clients, dtype=np.int64)
    worked = schedule.finish - schedule.begin - _pause(policy)
    for rows in (np.flatnonzero(number == turn) for turn in range(int(number.max()) + 1)):
        client = schedule.client[rows]
        first[rows] = place[client]
        steps = schedule.most_steps[rows]
        ends = step_ends(fleet, client, first[rows], steps, seed)
        place[client] += draws_used(fleet, ends, steps, worked[rows])
    return first


def check_progress_is_known(policy: Policy, fleet: ClientSpeeds) -> None:
    """Refuse readings of the clock under which a job's step times are not its own draws."""
    ours = isinstance(policy, Adaptive | Buffered | Polling | Rounds | Windowed)
    rule = "the steps of a job under way are not known with a policy of one's own"
    require(ours, "policy", type(policy).__name__, rule)
    rule = "the steps of a job under way are not known under this reading"
    if isinstance(policy, Polling):
        require(policy.interruption == "redraw", "interruption", policy.interruption, rule)
        require(policy.step_count == "durations", "step_count", policy.step_count, rule)
    if isinstance(policy, Rounds):
        require(policy.round_time == "sum", "round_time", policy.round_time, rule)
        whole = policy.deadline is None and policy.wait_for is None
        rule = "the steps of a recording under way are not known in rounds that interrupt clients"
        require(whole or not isinstance(fleet.law, Trace), "step_law", "trace", rule)


def _pause(policy: Policy) -> float:
    """Time between a client's contact and its first step."""
    if isinstance(policy, Polling) and policy.idle_in_interaction:
        return policy.interaction_time
    return policy.client_pause
