"""Models of clients in the middle of a job, to measure the live variance."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from favano.engine.replay import Replay
from favano.methods.method import S
from favano.schedule import check_progress_is_known, under_way
from favano.timing import Fleet
from favano.training import Trainer, Work
from favano.types import Vector


def live_models(
    replay: Replay[S], trainer: Trainer, fleet: Fleet, seed: int
) -> Callable[[float], Mapping[int, Vector]]:
    """A function of time: the models of all busy clients, each trained up to that time."""
    policy = replay.method.policy()
    check_progress_is_known(policy)

    def at(time: float) -> Mapping[int, Vector]:
        now = under_way(replay.schedule, policy, fleet, time=time, seed=seed)
        start = replay.started(now.client, now.base)
        work = Work(
            now.client, now.first_step, now.steps, replay.rates[now.job], replay.drift(now.client)
        )
        end = trainer.train(start, work)[:, : replay.layout.size]
        return dict(zip(now.client.tolist(), end, strict=True))

    return at
