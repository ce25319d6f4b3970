"""Evaluation of several runs at once, in the array engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from favano.engine.array_models import ArrayModels
from favano.engine.replay import Measurement, Moment
from favano.types import Ints, Stack


@dataclass(frozen=True)
class Scoring:
    """Says which moments are due for evaluation, and scores many models at once."""

    due: Callable[[int, Moment], bool]  # the run and its moment
    score: Callable[[Stack], Tensor]  # (k, 2) loss and accuracy

    def due_among(self, runs: Ints, moments: Sequence[Moment]) -> Ints:
        """Positions of the runs that are due."""
        pairs = zip(runs.tolist(), moments, strict=True)
        return np.flatnonzero([self.due(run, moment) for run, moment in pairs])

    def measure(self, models: ArrayModels, runs: Ints, rows: Ints) -> list[Measurement]:
        """Measurements of these runs, whose server models are in these rows."""
        servers = models.rows.take(rows)
        distances, means = models.spreads(runs, servers)
        numbers = torch.cat([self.score(servers), distances], dim=1)
        return [Measurement(*one) for one in zip(numbers, servers, means, strict=True)]


UNSCORED = Scoring(lambda run, moment: False, lambda models: models[:, :2])
