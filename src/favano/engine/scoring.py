"""Runs that are due for an evaluation at the same moment are measured together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from favano.engine.holdings import Holdings
from favano.engine.replay import Measured, Moment
from favano.types import Ints, Stack


@dataclass(frozen=True)
class Scoring:
    """Which moments are to be measured, and how many models are scored at once."""

    due: Callable[[int, Moment], bool]  # the run and its moment
    score: Callable[[Stack], Tensor]  # (k, 2) loss and accuracy

    def due_among(self, runs: Ints, moments: Sequence[Moment]) -> Ints:
        """Places of the runs that are due."""
        pairs = zip(runs.tolist(), moments, strict=True)
        return np.flatnonzero([self.due(run, moment) for run, moment in pairs])

    def measure(self, models: Holdings, runs: Ints, rows: Ints) -> list[Measured]:
        """What is to be known of these runs now; their server models lie in these rows."""
        servers = models.bank.take(rows)
        distances, means = models.spreads(runs, servers)
        numbers = torch.cat([self.score(servers), distances], dim=1)
        return [Measured(*one) for one in zip(numbers, servers, means, strict=True)]


UNSCORED = Scoring(lambda run, moment: False, lambda models: models[:, :2])
