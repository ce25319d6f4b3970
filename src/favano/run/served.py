"""How well the final model serves each client."""

from __future__ import annotations

from favano.metrics import ClientEvaluator, worst_tenth
from favano.planning.client_weights import listed_clients, speed_thirds
from favano.planning.planned import Planned
from favano.records import ClientScores, MetricRecord, SpeedScores
from favano.types import Vector

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
