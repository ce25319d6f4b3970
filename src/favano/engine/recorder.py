"""What is written down along a run: evaluations at the asked times, and counters of work."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Generic, NamedTuple

import numpy as np

from favano.algorithms.base import S
from favano.engine.link import first_versions
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
    wrapped: int  # messages so far that a codec read wrongly


@dataclass(frozen=True)
class Counters:
    """Steps and messages up to each version, the initial one first: (V+1,)."""

    local_steps: Ints
    contributed_steps: Ints
    uploads: Ints
    downloads: Ints
    first_downloads: Ints  # those among them that are a client's first model


def count_work(plan: Schedule) -> Counters:
    """What had been done by each server version. A job is one download, and one upload if used."""
    used = slice(0, plan.jobs)
    first = plan.base == first_versions(plan)[plan.client]

    def by_version(at: Ints, weight: Ints | None = None) -> Ints:
        per_version = np.bincount(at, weight, minlength=plan.updates + 1)
        return np.cumsum(per_version).astype(np.int64)

    contributed = by_version(plan.visit[used] + 1, plan.steps[used])
    return Counters(
        local_steps=contributed + np.concatenate([[0], np.cumsum(plan.lost)]),
        contributed_steps=contributed,
        uploads=by_version(plan.visit[used] + 1),
        downloads=by_version(plan.base + 1),
        first_downloads=by_version(plan.base[first] + 1),
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
    counters: Counters = field(init=False)
    refused: int = field(init=False, default=0)
    _next: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.counters = count_work(self.replay.schedule)
        self.versions = self.replay.schedule.versions_at(self.times)

    def observe(self, moment: Moment) -> Iterator[Observation]:
        """What is to be written down of this moment: nothing, or a row for each time it lasts."""
        self.refused += len(moment.refused)
        if not self._due(moment):
            return
        loss, accuracy = self.score(moment.server)
        store, parameters = self.replay.store, self.replay.layout.parameters
        done = moment.version + 1
        spread = store.spread(moment.server, parameters)
        while self._due(moment):
            time = float(self.times[self._next])
            if self.live is not None:
                spread = store.spread(moment.server, parameters, self.live(time))
            row = Row(
                seed=self.seed,
                time=time,
                server_step=done,
                local_steps=int(self.counters.local_steps[done]),
                bits_up=int(self.counters.uploads[done]) * self.replay.message_bits,
                bits_down=self._bits_down(done),
                loss=loss,
                accuracy=accuracy,
                variance=spread.variance,
                potential=spread.potential,
                contributed_steps=int(self.counters.contributed_steps[done]),
            )
            wrapped = 0 if self.replay.link is None else self.replay.link.wrapped
            yield Observation(row, moment.server, spread.mean, self.refused, wrapped)
            self._next += 1

    def _bits_down(self, done: int) -> int:
        """A client's first model comes in full, the others as the codec packs them."""
        first = int(self.counters.first_downloads[done])
        others = int(self.counters.downloads[done]) - first
        return first * self.replay.layout.bits + others * self.replay.message_bits

    def _due(self, moment: Moment) -> bool:
        return self._next < len(self.times) and self.versions[self._next] == moment.version
