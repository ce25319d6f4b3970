"""How well the final model serves the clients, in `summary.json`."""

from __future__ import annotations

from dataclasses import dataclass

from favano.records.document import Number


@dataclass(frozen=True)
class SpeedScores:
    """All clients of one speed together."""

    name: str
    clients: int
    mean: Number
    worst: Number  # mean over the tenth that is served worst


@dataclass(frozen=True)
class ClientScores:
    """The leading metric of the final model of one seed, on samples of each client.

    Of very many clients only a sample is listed, and all means are over those.
    """

    seed: int
    metric: str
    mean: Number
    worst: Number  # mean over the tenth of the clients that is served worst
    speeds: tuple[SpeedScores, ...]
    client: tuple[int, ...]
    score: tuple[Number, ...]  # of each of these clients

    def __post_init__(self) -> None:
        if len(self.client) != len(self.score):
            raise ValueError("the columns of served clients differ in length")
