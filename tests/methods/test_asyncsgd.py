"""AsyncSGD: sequential SGD with one job at a time (P8), delay rules (P9), mean delays."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from favano.methods.asyncsgd import AsyncSGD
from favano.schedule import Arrival, plan
from favano.timing import two_speeds
from tests.problems import close, quadratics, server_models, start_model, visit_of


def uniform(concurrency: int) -> Arrival:
    return Arrival(
        buffer=1, local_steps=1, hand_out="uniform", concurrency=concurrency, latency="client"
    )


def test_p8_one_job_at_a_time_is_sequential_sgd() -> None:
    fleet = two_speeds(6, seed=0)
    schedule = plan(uniform(1), fleet, horizon=900, seed=0)
    assert (schedule.staleness == 0).all()
    trainer, model = quadratics(6), start_model()
    found = server_models(AsyncSGD(policy=uniform(1), concurrency=1), schedule, trainer, model)
    for client, after in zip(schedule.client, found[1:], strict=False):
        model = model - 0.1 * trainer.gradient(int(client), model)
        assert close(after, model)
    shares = np.bincount(schedule.client[: schedule.jobs], minlength=6)
    assert (shares > 0).all()


def test_p9_delay_adaptive_is_asyncsgd_while_delays_are_short() -> None:
    """Equal until the first delay beyond M, different from there on."""
    fleet = two_speeds(8, seed=4)
    policy = Arrival(buffer=1, local_steps=1, hand_out="flush", latency="none")
    schedule = plan(policy, fleet, horizon=100, seed=4)
    trainer, initial = quadratics(8), start_model()
    plain = server_models(AsyncSGD(policy=policy, concurrency=8), schedule, trainer, initial)
    late = int(np.argmax(schedule.staleness > 8))
    assert late > 0
    for rule in ("scale", "drop"):
        adaptive = AsyncSGD(policy=policy, concurrency=8, delays=rule)
        found = server_models(adaptive, schedule, trainer, initial)
        assert all(close(a, b) for a, b in zip(found[: late + 1], plain, strict=False))
        assert not close(found[late + 1], plain[late + 1], 1e-9)


def test_delay_factors() -> None:
    policy = uniform(5)
    delays = np.array([0, 5, 6, 10, 50])
    scaled = AsyncSGD(policy=policy, concurrency=5, delays="scale").factor(delays)
    assert scaled == pytest.approx([1, 1, 5 / 6, 0.5, 0.1])
    dropped = AsyncSGD(policy=policy, concurrency=5, delays="drop").factor(delays)
    assert dropped.tolist() == [1, 1, 0, 0, 0]


def test_one_update_by_hand() -> None:
    """3 - 0.5 * 5/10 * (1 - 0.2) with a server step of a half and a delay of twice M."""
    algorithm = AsyncSGD(policy=uniform(5), concurrency=5, server_learning_rate=0.5, delays="scale")
    start, end = torch.tensor([[1.0]]).double(), torch.tensor([[0.2]]).double()
    state = algorithm.init(torch.tensor([3.0]).double())
    found = algorithm.update(state, visit_of([0], [1], [10]), start, end)
    assert float(found.model) == pytest.approx(3 - 0.5 * 0.5 * 0.8)


def test_average_delay_is_the_concurrency() -> None:
    """Koloskova et al.: the mean delay is tau_C - 1, up to the jobs open at the end."""
    fleet = two_speeds(50, seed=6)
    schedule = plan(uniform(12), fleet, horizon=5000, seed=6)
    assert len(schedule.client) - schedule.jobs == 12
    assert schedule.staleness.mean() == pytest.approx(11, abs=0.1)


def test_uniform_assignment_is_fair_and_the_other_is_not() -> None:
    fleet = two_speeds(30, seed=7)
    slow = fleet.mean == 16
    fair = plan(uniform(30), fleet, horizon=8000, seed=7)
    share = slow[fair.client[: fair.jobs]].mean()
    assert share == pytest.approx(slow.mean(), abs=0.03)
    same = Arrival(buffer=1, local_steps=1, hand_out="flush", latency="none")
    biased = plan(same, fleet, horizon=1000, seed=7)
    rate = 1 / fleet.mean
    assert slow[biased.client[: biased.jobs]].mean() == pytest.approx(
        rate[slow].sum() / rate.sum(), abs=0.01
    )
