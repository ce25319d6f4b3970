"""Server version events: what the engines report of a run, version by version."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from math import inf
from typing import NamedTuple, Protocol, TypeAlias

from torch import Tensor

from favano.aggregation import Snapshot
from favano.engine.spread import ModelSpread
from favano.types import Ints, Stack, Vector

LiveModels: TypeAlias = Mapping[int, Vector]  # of clients in training
NOTHING: LiveModels = {}


class ClientModelView(Protocol):
    """The models that the clients of one run hold: of the last job that each has begun by a time.

    Jobs may begin some time after their models were made, so what clients hold changes between two
    updates. Infinity: once all jobs have begun that have their models.
    """

    @property
    def changing(self) -> bool:
        """Whether there are jobs that have not begun."""

    def of(self, client: Ints, time: float = inf) -> Stack:
        """The models of these clients."""

    def spread(self, server: Vector, live: LiveModels = NOTHING, time: float = inf) -> ModelSpread:
        """Their distances from a server model; `live` ones replace those that clients hold."""


class Measurement(NamedTuple):
    """Measurements of one server version."""

    numbers: Tensor  # (m + 3,) loss, m metrics, variance and potential
    server: Vector  # a copy
    mean: Vector  # of all models
    digest: Future[str] | None = None  # of the server model, if somebody makes it already


class ServerVersion(NamedTuple):
    """The run after an update; version -1 is the initial model. Valid until the next event.

    A run that goes on from a snapshot begins with the version of the snapshot.
    """

    version: int
    server: Vector
    refused: Ints  # clients whose update has NaN or infinity
    clients: ClientModelView
    snapshot: Callable[[], Snapshot]
    steps: int = 0  # local steps that were used since the last event
    measured: Sequence[Measurement] = ()  # at the next times, if evaluated with other runs
