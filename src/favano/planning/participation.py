"""Each client's part in the model, from the first seed's schedule."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from favano.errors import BadInput
from favano.planning.charts import availability_chart, job_chart, rounded
from favano.planning.client_weights import ClientWeights, speed_classes, speed_thirds
from favano.planning.planned import Planned
from favano.records.participation import Listed, Participation, Speed, Staleness
from favano.schedule import Schedule
from favano.specification.spec import required
from favano.timing import ClientSpeeds
from favano.types import Floats, Ints

_BINS = 60


def participation_of(planned: Planned) -> Participation | None:
    """Who trains the model of a seed; None if clients have no weights."""
    schedule, fleet = planned.schedule, planned.fleet
    try:
        about = planned.weights, schedule, fleet, planned.seed
        record = participation(*about, fair=planned.fair)
    except BadInput:
        return None
    presence, horizon = fleet.conditions.presence, required(planned.spec.run.horizon)
    return replace(
        record,
        availability=None if presence is None else availability_chart(presence, horizon),
        jobs=job_chart(schedule, fleet, horizon),
    )


def participation(
    weights: ClientWeights,
    schedule: Schedule,
    fleet: ClientSpeeds,
    seed: int,
    *,
    fair: Floats | None = None,
) -> Participation:
    """Contacts, steps, staleness and effective weight of each client and of each speed.

    `fair` are the targets of the weights, (n,), if they are not 1/n.
    """
    names, speed = speed_thirds(fleet)
    clients, shown = fleet.clients, weights.listed
    used = slice(0, schedule.jobs)
    client, steps, staleness = schedule.client[used], schedule.steps[used], schedule.staleness
    contacts = np.bincount(client, minlength=clients)
    made = np.bincount(client, steps, minlength=clients).astype(np.int64)
    late = np.bincount(client, staleness, minlength=clients) / np.maximum(contacts, 1)
    by_speed = weights.by(speed).final
    return Participation(
        seed=seed,
        clients=clients,
        speeds=tuple(
            Speed(
                name=name,
                clients=int((speed == number).sum()),
                contacts=int(contacts[speed == number].sum()),
                steps=int(made[speed == number].sum()),
                weight=float(by_speed[number]),
                fair=None if fair is None else float(f"{fair[speed == number].sum():.6g}"),
            )
            for number, name in enumerate(names)
        ),
        listed=Listed(
            client=tuple(shown.tolist()),
            speed=tuple(speed[shown].tolist()),
            contacts=tuple(contacts[shown].tolist()),
            steps=tuple(made[shown].tolist()),
            staleness=rounded(late[shown]),
            weight=rounded(weights.each),
            fair=() if fair is None else rounded(fair[shown]),
        ),
        staleness=_histogram(staleness, speed[client], len(names)),
    )


def _histogram(staleness: Ints, speed: Ints, speeds: int) -> Staleness:
    most = int(staleness.max(initial=0))
    width = most // _BINS + 1
    bins = most // width + 1
    counts = [np.bincount(staleness[speed == s] // width, minlength=bins) for s in range(speeds)]
    jobs = len(staleness) > 0
    return Staleness(
        width=width,
        counts=tuple(tuple(each.tolist()) for each in counts),
        mean=float(staleness.mean()) if jobs else 0.0,
        median=float(np.median(staleness)) if jobs else 0.0,
        most=most,
    )


def describe(
    schedule: Schedule, fleet: ClientSpeeds, weight: Floats | None, fair: Floats | None = None
) -> list[dict[str, object]]:
    """One entry per client; its effective weight is None without weights.

    With `fair`, the targets of the weights, (n,), each entry has its own.
    """
    names, group = speed_classes(fleet)
    used = slice(0, schedule.jobs)
    client, steps = schedule.client[used], schedule.steps[used]
    contacts = np.bincount(client, minlength=fleet.clients)
    share = 1.0 / np.maximum(contacts, 1)
    mean_steps = np.bincount(client, steps, minlength=fleet.clients) * share
    staleness = np.bincount(client, schedule.staleness, minlength=fleet.clients) * share
    none = np.bincount(client, steps == 0, minlength=fleet.clients)
    presence = fleet.conditions.presence
    there = None if presence is None else presence.share(presence.horizon)
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
            **({} if there is None else {"share_of_time_there": float(there[i])}),
            **({} if fair is None else {"fair_weight": float(fair[i])}),
        }
        for i in range(fleet.clients)
    ]
