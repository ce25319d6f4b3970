"""What is written down along a run: evaluations at the asked times, and counters of work."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, NamedTuple

import numpy as np
import torch
from torch import Tensor

from favano.algorithms.base import S
from favano.engine.replay import Moment, Replay
from favano.engine.spread import Spread
from favano.engine.store import NOTHING
from favano.metrics import Row
from favano.schedule import Schedule
from favano.types import Floats, Ints, Vector


class Observation(NamedTuple):
    """The models of the last row, and what had been refused by then."""

    server: Vector
    mean: Vector  # of all models
    refused: int  # updates that held NaN or infinity


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


def spread_of(
    replay: Replay[S], live: Callable[[float], Mapping[int, Vector]] | None = None
) -> Callable[[Vector, float], Spread]:
    """The spread of the models that a replay's clients started from.

    With `live`, which gives the clients' models at a time, of their models in training.
    """

    def at(server: Vector, time: float) -> Spread:
        models = NOTHING if live is None else live(time)
        return replay.store.spread(server, replay.layout.parameters, models)

    return at


@dataclass
class Recorder(Generic[S]):
    """Watches a run and observes it at the asked times.

    `spread` says how far the clients' models are from a server model at a time: `spread_of` a
    replay, or of whoever else holds the models.
    """

    replay: Replay[S]
    seed: int
    times: Floats
    score: Callable[[Vector], Tensor]  # (2,) loss and accuracy
    spread: Callable[[Vector, float], Spread]
    counters: Counters = field(init=False)
    last: Observation | None = field(init=False, default=None)
    _refused: int = field(init=False, default=0)
    _measured: list[Tensor] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self.counters = count_work(self.replay.schedule)
        self.versions = self.replay.schedule.versions_at(self.times)

    def observe(self, moment: Moment) -> None:
        """Measure what is to be measured of this moment; a device may still be busy with it."""
        self._refused += len(moment.refused)
        if not self._due(moment):
            return
        score = self.score(moment.server)
        while self._due(moment):
            spread = self.spread(moment.server, float(self.times[len(self._measured)]))
            self.last = Observation(moment.server.clone(), spread.mean, self._refused)
            self._measured.append(torch.cat([score, spread.distances]))

    def rows(self) -> list[Row]:
        """What has been measured so far."""
        if not self._measured:
            return []
        measured = torch.stack(self._measured).tolist()
        return [self._row(number, *numbers) for number, numbers in enumerate(measured)]

    def _row(
        self, number: int, loss: float, accuracy: float, variance: float, potential: float
    ) -> Row:
        bits, done = self.replay.layout.bits, int(self.versions[number]) + 1
        return Row(
            seed=self.seed,
            time=float(self.times[number]),
            server_step=done,
            local_steps=int(self.counters.local_steps[done]),
            bits_up=int(self.counters.uploads[done]) * bits,
            bits_down=int(self.counters.downloads[done]) * bits,
            loss=loss,
            accuracy=accuracy,
            variance=variance,
            potential=potential,
            contributed_steps=int(self.counters.contributed_steps[done]),
        )

    def _due(self, moment: Moment) -> bool:
        number = len(self._measured)
        return number < len(self.times) and int(self.versions[number]) == moment.version
