"""Moments: what the engines tell of a run, version by version."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf
from typing import NamedTuple, Protocol

from torch import Tensor

from favano.aggregation import Snapshot
from favano.engine.spread import Spread
from favano.types import Ints, Stack, Vector

NOTHING: Mapping[int, Vector] = {}


class ClientModels(Protocol):
    """The models that the clients of one run hold, at a time before the next update.

    A client holds the model of the last job that it has begun. Jobs may begin after the update that
    made their model, so what clients hold may change without an update.
    """

    @property
    def changing(self) -> bool:
        """Whether clients begin jobs before the next update."""

    def of(self, client: Ints, time: float = inf) -> Stack:
        """The models of these clients."""

    def spread(
        self, server: Vector, live: Mapping[int, Vector] = NOTHING, time: float = inf
    ) -> Spread:
        """Their distances from a server model; `live` ones replace those that clients hold."""


class Measurement(NamedTuple):
    """Measurements of one server version."""

    numbers: Tensor  # (m + 3,) loss, m metrics, variance and potential
    server: Vector  # a copy
    mean: Vector  # of all models


class Moment(NamedTuple):
    """The run after an update; version -1 is the initial model. Valid until the next moment.

    A run that goes on from a snapshot begins with the moment of the snapshot.
    """

    version: int
    server: Vector
    refused: Ints  # clients whose answer has NaN or infinity
    clients: ClientModels
    snapshot: Callable[[], Snapshot]
    steps: int = 0  # local steps that were used since the last moment
    measured: Measurement | None = None  # if evaluated together with other runs
