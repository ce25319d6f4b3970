"""How well models serve each client, and the samples on which this is scored."""

from __future__ import annotations

import numpy as np
import torch

from favano.metrics import ClientEvaluator, ClientSamples, worst_tenth
from favano.planning.client_weights import listed_clients, speed_thirds
from favano.planning.planned import Planned
from favano.records import ClientScores, MetricRecord, SpeedScores
from favano.run.samples import Samples
from favano.training import Task
from favano.types import Ints, Vector

_SAMPLES = 200  # of each client; the share of those classified correctly is then known to 0.035


def per_client_scores(
    planned: Planned, clients: ClientEvaluator, metric: MetricRecord, model: Vector
) -> ClientScores:
    """Score a model on samples of each client, by the leading metric of the problem."""
    listed = listed_clients(planned.fleet.clients)
    place = 1 if clients.test.metrics else 0
    scores = clients.each(model, listed.tolist(), _SAMPLES)[:, place].cpu()
    names, speed = speed_thirds(planned.fleet)
    by_speed = [(name, scores[speed[listed] == number]) for number, name in enumerate(names)]
    return ClientScores(
        seed=planned.seed,
        metric=metric.name,
        mean=float(scores.nanmean()),
        worst=float(worst_tenth(scores, metric)),
        speeds=tuple(
            SpeedScores(name, len(some), float(some.nanmean()), float(worst_tenth(some, metric)))
            for name, some in by_speed
        ),
        client=tuple(listed.tolist()),
        score=tuple(float(f"{score:.6g}") for score in scores.tolist()),
    )


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
