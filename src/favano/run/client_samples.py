"""The samples on which models are scored for each client."""

from __future__ import annotations

import numpy as np
import torch

from favano.metrics import ClientSamples
from favano.run.samples import Samples
from favano.training import Task
from favano.types import Ints


def client_samples(samples: Samples, task: Task, how: str, dtype: torch.dtype) -> ClientSamples:
    """Each client's own test samples if the data have some for all clients of the split `how`.

    Otherwise the samples that it trains on.
    """
    parts, column = task.batches.parts, how.removeprefix("column:")
    if column in samples.owners and column in samples.test_owners:
        mine, theirs = samples.owners[column], samples.test_owners[column]
        own = [np.flatnonzero(theirs == mine[part[0]]) for part in parts]
        if all(len(part) for part in own):
            return ClientSamples(own, lambda places: _tested(samples, places))
    return ClientSamples(parts, lambda places: task.samples(places, dtype))


def _tested(samples: Samples, places: Ints) -> tuple[torch.Tensor, torch.Tensor]:
    chosen = torch.from_numpy(places).to(samples.test_labels.device)
    return samples.test_features[chosen], samples.test_labels[chosen]
