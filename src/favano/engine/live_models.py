"""Models of clients in the middle of a job, to measure the live variance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from favano.aggregation.aggregator import Aggregator
from favano.engine.recorder import Live
from favano.engine.server_version import ClientModelView
from favano.methods.method import S
from favano.schedule import check_progress_is_known, under_way
from favano.timing import ClientSpeeds
from favano.training import Trainer
from favano.types import Vector


def live_models(run: Aggregator[S], trainer: Trainer, fleet: ClientSpeeds, seed: int) -> Live:
    """A function of time: the models of all busy clients, each trained up to that time."""
    policy = run.method.policy()
    check_progress_is_known(policy, fleet)

    def at(time: float, held: ClientModelView) -> Mapping[int, Vector]:
        now = under_way(run.timeline.known, policy, fleet, time=time, seed=seed)
        start = run.starts(now.client, held.of(now.client, time))
        end = trainer.train(start, replace(run.work(now.job), steps=now.steps))
        end = end[:, : run.layout.size]
        return dict(zip(now.client.tolist(), end, strict=True))

    return at
