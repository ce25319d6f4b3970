"""What became of the jobs of a schedule: which were sent, used or lost. NumPy only."""

from __future__ import annotations

from typing import Final

import numpy as np

from favano.schedule import Schedule
from favano.timing.ties import at_or_before
from favano.types import Ints

USED: Final = 0  # by a server step
NOT_USED: Final = 1  # sent, and dropped by the server
LOST: Final = 2  # ended, and never sent
UNDER_WAY: Final = 3  # at the end of the run


def uploads_of(plan: Schedule) -> Ints:
    """(J,) how often the update of each job was sent.

    Unless the schedule says so, it was sent once, whether it is used or not, and never if the
    client was stopped: then it ends, unused, with the update after its start version or without a
    step.
    """
    if plan.uploads is not None:
        return plan.uploads
    used = np.arange(len(plan.client)) < plan.jobs
    following = np.append(plan.time, np.inf)[np.minimum(plan.start_version + 1, plan.updates)]
    in_part = (plan.steps < plan.most_steps) & (plan.finish == following)
    return np.asarray(used | ~(in_part | (plan.steps == 0)), np.int64)


def outcomes(plan: Schedule, horizon: float) -> Ints:
    """(J,) what became of each job by the horizon."""
    used, ended = plan.used_by < plan.updates, at_or_before(plan.finish, horizon)
    sent = uploads_of(plan) > 0
    return np.select([used, ~ended, sent], [USED, UNDER_WAY, NOT_USED], LOST).astype(np.int64)
