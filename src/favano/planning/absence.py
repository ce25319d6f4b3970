"""What absence and faults do to the schedule of a seed, in numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from favano.engine.outcomes import LOST, outcomes, uploads_of
from favano.schedule import Schedule
from favano.timing import ClientSpeeds


@dataclass(frozen=True)
class Absence:
    """Clients that come and go, jobs and messages that are lost, late or sent twice."""

    mean_availability: float  # share of the time in which a client is there
    median_availability: float
    lost_jobs: int  # whose update was never sent
    losing_clients: int  # whose jobs these are
    wasted_steps: int  # local steps in them
    late_updates: int
    duplicate_updates: int  # sent once more than needed
    faults: Mapping[str, int]  # by kind; those that met a client


def absence(schedule: Schedule, fleet: ClientSpeeds, horizon: float) -> Absence | None:
    """Nothing where all clients are always there and meet no fault."""
    presence = fleet.conditions.presence
    if presence is None and schedule.uploads is None and not schedule.faults:
        return None
    share = np.ones(fleet.clients) if presence is None else presence.share(horizon)
    lost = outcomes(schedule, horizon) == LOST
    kinds = Counter(fault.what for fault in schedule.faults)
    return Absence(
        mean_availability=float(share.mean()),
        median_availability=float(np.median(share)),
        lost_jobs=int(lost.sum()),
        losing_clients=len(np.unique(schedule.client[lost])),
        wasted_steps=int(schedule.steps[lost].sum()),
        late_updates=sum(fault.what == "late" and fault.job >= 0 for fault in schedule.faults),
        duplicate_updates=int(np.maximum(uploads_of(schedule) - 1, 0).sum()),
        faults=dict(sorted(kinds.items())),
    )
