"""The jobs under way at a given time, and the steps made so far."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from favano.errors import need
from favano.schedule.draws import total_before
from favano.schedule.policies import Adaptive, Arrival, Barrier, Policy, Poll
from favano.schedule.schedule import Schedule
from favano.timing import Fleet
from favano.timing.ties import at_or_before
from favano.types import Ints


class UnderWay(NamedTuple):
    """One row per client that is at work."""

    job: Ints  # row of the schedule
    client: Ints
    steps: Ints  # made so far


def under_way(
    schedule: Schedule, policy: Policy, fleet: Fleet, *, time: float, seed: int
) -> UnderWay:
    """Jobs begun and not finished at `time`, with their progress.

    The step times are drawn again from (seed, client, number of the job), as in the plan.
    """
    check_progress_is_known(policy)
    order = np.lexsort((schedule.first_step, schedule.begin, schedule.client))
    number = np.empty_like(order)
    number[order] = total_before(schedule.client[order], np.ones_like(order))
    begun, over = at_or_before(schedule.begin, time), at_or_before(schedule.finish, time)
    jobs = np.flatnonzero(begun & ~over)
    client = schedule.client[jobs]
    worked = time - schedule.begin[jobs] - _pause(policy)
    first_draw = number[jobs] * schedule.local_steps
    if isinstance(policy, Adaptive):  # jobs differ in length: one draw per batch
        first_draw = schedule.first_step[jobs]
    index = first_draw[:, None] + np.arange(schedule.local_steps)
    ends = np.cumsum(fleet.durations(seed, client[:, None], index), axis=1)
    steps = np.minimum(at_or_before(ends, worked[:, None]).sum(axis=1), schedule.steps[jobs])
    return UnderWay(jobs, client, steps)


def check_progress_is_known(policy: Policy) -> None:
    """Refuse readings of the clock under which a job's step times are not its own draws."""
    rule = "the steps of a job under way are not known under this reading"
    if isinstance(policy, Poll):
        need(policy.interruption == "redraw", "interruption", policy.interruption, rule)
        need(policy.step_count == "durations", "step_count", policy.step_count, rule)
    if isinstance(policy, Barrier):
        need(policy.round_time == "sum", "round_time", policy.round_time, rule)


def _pause(policy: Policy) -> float:
    """Time between a client's contact and its first step."""
    if isinstance(policy, Poll) and policy.idle_in_interaction:
        return policy.interaction_time
    if isinstance(policy, Arrival | Adaptive) and policy.latency == "client":
        return policy.interaction_time
    return 0.0
