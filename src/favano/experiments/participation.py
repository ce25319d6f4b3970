"""Who took part in a schedule: contacts, steps, staleness and effective weight of each client."""

from __future__ import annotations

import numpy as np

from favano.schedule import Schedule
from favano.timing import Fleet
from favano.types import Floats


def describe(schedule: Schedule, fleet: Fleet, weight: Floats | None) -> list[dict[str, object]]:
    """One entry per client; without weights nobody can say how much one counts."""
    names, group = speed_names(fleet), fleet.groups
    used = slice(0, schedule.jobs)
    client, steps = schedule.client[used], schedule.steps[used]
    contacts = np.bincount(client, minlength=fleet.clients)
    share = 1.0 / np.maximum(contacts, 1)
    mean_steps = np.bincount(client, steps, minlength=fleet.clients) * share
    staleness = np.bincount(client, schedule.staleness, minlength=fleet.clients) * share
    none = np.bincount(client, steps == 0, minlength=fleet.clients)
    return [
        {
            "client": i,
            "speed": names[group[i]],
            "mean_step_time": float(fleet.mean[i]),
            "contacts": int(contacts[i]),
            "mean_steps": float(mean_steps[i]),
            "zero_steps": int(none[i]),
            "mean_staleness": float(staleness[i]),
            "effective_weight": None if weight is None else float(weight[i]),
        }
        for i in range(fleet.clients)
    ]


def speed_names(fleet: Fleet) -> list[str]:
    """`fast` and `slow` where there are two speeds; numbered classes where there are more."""
    classes = int(fleet.groups.max()) + 1
    return ["fast", "slow"][:classes] if classes <= 2 else [f"class {k}" for k in range(classes)]
