"""What is written down along a run: evaluations at the asked times, and counters of work."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Generic, NamedTuple

import numpy as np

from favano.algorithms.base import S
from favano.engine.replay import Moment, Replay
from favano.metrics import Row, Score
from favano.schedule import Schedule
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


def count_work(plan: Schedule) -> Counters:
    """What had been done by each server version. A job is one download, and one upload if used."""
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


@dataclass
class Recorder(Generic[S]):
    """Watches a run and observes it at the asked times.

    With `live`, which gives the clients' models at a time, the variance is that of the models in
    training instead of those they started from.
    """

    replay: Replay[S]
    seed: int
    times: Floats
    score: Callable[[Vector], Score]
    live: Callable[[float], Mapping[int, Vector]] | None = None
    refused: int = field(init=False, default=0)
    _next: int = field(init=False, default=0)
    _counted: tuple[Schedule, Counters] | None = field(init=False, default=None)

    def observe(self, moment: Moment) -> Iterator[Observation]:
        """What is to be written down of this moment: nothing, or a row for each time it lasts."""
        self.refused += len(moment.refused)
        if not self._due(moment):
            return
        loss, accuracy = self.score(moment.server)
        store, parameters = self.replay.store, self.replay.layout.parameters
        counters = self._counters()
        bits, done = self.replay.message_bits, moment.version + 1
        spread = store.spread(moment.server, parameters)
        while self._due(moment):
            time = float(self.times[self._next])
            if self.live is not None:
                spread = store.spread(moment.server, parameters, self.live(time))
            row = Row(
                seed=self.seed,
                time=time,
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
            yield Observation(row, moment.server, spread.mean, self.refused)
            self._next += 1

    def _due(self, moment: Moment) -> bool:
        """Whether the next time lies before the next update."""
        if self._next == len(self.times):
            return False
        time, follows = self.replay.schedule.time, moment.version + 1
        return follows == len(time) or bool(self.times[self._next] < time[follows])

    def _counters(self) -> Counters:
        """Of the schedule as far as it is known."""
        plan = self.replay.schedule
        if self._counted is None or self._counted[0] is not plan:
            self._counted = plan, count_work(plan)
        return self._counted[1]
