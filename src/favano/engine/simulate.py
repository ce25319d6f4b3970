"""One run from beginning to end: replay, evaluate at the asked times, keep the history."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from favano.algorithms.base import S
from favano.engine.replay import Replay
from favano.metrics import Row, Score
from favano.types import Floats, Ints, Vector


class Observation(NamedTuple):
    """A row of the history, with the server model and the mean of all models it speaks of."""

    row: Row
    server: Vector
    mean: Vector
    refused: int  # updates refused so far, because they held NaN or infinity


@dataclass(frozen=True)
class Counters:
    """Steps and messages up to each version, the initial one first: (V+1,)."""

    local_steps: Ints
    contributed_steps: Ints
    uploads: Ints
    downloads: Ints


def count_work(replay: Replay[S]) -> Counters:
    """What had been done by each server version. A job is one download, and one upload if used."""
    plan = replay.schedule
    used = slice(0, plan.jobs)

    def by_version(at: Ints, weight: Ints | None = None) -> Ints:
        per_version = np.bincount(at, weight, minlength=plan.updates + 1)
        return np.cumsum(per_version).astype(np.int64)

    contributed = by_version(plan.visit[used] + 1, plan.steps[used])
    return Counters(
        local_steps=contributed + np.concatenate([[0], np.cumsum(plan.lost)]),
        contributed_steps=contributed,
        uploads=by_version(plan.visit[used] + 1),
        downloads=by_version(plan.base + 1),
    )


def evaluation_times(horizon: float, every: float, last_update: float) -> Floats:
    """0, every, 2 every, ..., the horizon, and the last update where it lies past the horizon."""
    grid = np.arange(0.0, horizon, every)
    end = [horizon, last_update] if last_update > horizon else [horizon]
    return np.concatenate([grid, end])


def simulate(
    replay: Replay[S],
    initial: Vector,
    *,
    seed: int,
    times: Floats,
    score: Callable[[Vector], Score],
    on_update: Callable[[int], None] = lambda _: None,
    live: Callable[[float], Mapping[int, Vector]] | None = None,
) -> Iterator[Observation]:
    """Observations at `times`, in order. `on_update` hears of every server version.

    With `live`, which gives the clients' models at a time, the variance is that of the models in
    training instead of those they started from.
    """
    plan = replay.schedule
    versions = plan.versions_at(times)
    counters = count_work(replay)
    bits = replay.layout.bits
    next_time, refused = 0, 0
    for moment in replay.moments(initial):
        refused += len(moment.refused)
        on_update(moment.version)
        if next_time == len(times) or versions[next_time] != moment.version:
            continue
        loss, accuracy = score(moment.server)
        spread = replay.store.spread(moment.server, replay.layout.parameters)
        done = moment.version + 1
        while next_time < len(times) and versions[next_time] == moment.version:
            if live is not None:
                now = live(float(times[next_time]))
                spread = replay.store.spread(moment.server, replay.layout.parameters, now)
            row = Row(
                seed=seed,
                time=float(times[next_time]),
                server_step=done,
                local_steps=int(counters.local_steps[done]),
                bits_up=int(counters.uploads[done]) * bits,
                bits_down=int(counters.downloads[done]) * bits,
                loss=loss,
                accuracy=accuracy,
                variance=spread.variance,
                potential=spread.potential,
                contributed_steps=int(counters.contributed_steps[done]),
            )
            yield Observation(row, moment.server, spread.mean, refused)
            next_time += 1
