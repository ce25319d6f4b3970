"""AsyncSGD: sequential SGD with one job at a time (P8), delay rules (P9), mean delays."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from favano.methods.asyncsgd import AsyncSGD
from favano.methods.asyncsgd_adaptive import AsyncSGDAdaptive
from favano.methods.delays import DelayRule, delay_factor
from favano.policies import Buffered
from favano.schedule import Schedule
from favano.timing import ClientSpeeds, two_speeds
from tests.methods.bound import bound, scheduled
from tests.problems import answers_of, close, quadratics, server_models, start_model


def uniform(concurrency: int, fleet: ClientSpeeds, horizon: float, seed: int) -> Schedule:
    return scheduled(bound(AsyncSGD(concurrency=concurrency), fleet), horizon, seed)


def same(fleet: ClientSpeeds, delays: DelayRule = "none") -> AsyncSGD:
    """All clients at work, a server step of one; nobody pays for talking."""
    options = AsyncSGD(assignment="same", latency="none", delays=delays, server_learning_rate=1.0)
    return bound(options, fleet)


def test_policies() -> None:
    assert bound(AsyncSGD(concurrency=5)).policy() == Buffered(
        buffer=1, local_steps=1, hand_out="uniform", concurrency=5, latency="client"
    )
    assert bound(AsyncSGD(), selected=3).policy().concurrency == 3
    assert same(two_speeds(8)).policy() == Buffered(
        buffer=1, local_steps=1, hand_out="flush", concurrency=8, latency="none"
    )


def test_p8_one_job_at_a_time_is_sequential_sgd() -> None:
    fleet = two_speeds(6, seed=0)
    method = bound(AsyncSGD(concurrency=1), fleet)
    schedule = scheduled(method, 900)
    assert (schedule.staleness == 0).all()
    trainer, model = quadratics(6), start_model()
    models = server_models(method, schedule, trainer, model)
    for client, after in zip(schedule.client, models[1:], strict=False):
        model = model - 0.1 * trainer.gradient(int(client), model)
        assert close(after, model)
    shares = np.bincount(schedule.client[: schedule.jobs], minlength=6)
    assert (shares > 0).all()


def test_p9_delay_adaptive_is_asyncsgd_while_delays_are_short() -> None:
    """Equal until the first delay beyond M, different from there on."""
    fleet = two_speeds(8, seed=4)
    schedule = scheduled(same(fleet), 100, seed=4)
    trainer, initial = quadratics(8), start_model()
    plain = server_models(same(fleet), schedule, trainer, initial)
    late = int(np.argmax(schedule.staleness > 8))
    assert late > 0
    rules: list[DelayRule] = ["scale", "drop"]
    for rule in rules:
        models = server_models(same(fleet, rule), schedule, trainer, initial)
        assert all(close(a, b) for a, b in zip(models[: late + 1], plain, strict=False))
        assert not close(models[late + 1], plain[late + 1], 1e-9)


def test_delay_factors() -> None:
    delays = np.array([0, 5, 6, 10, 50])
    assert delay_factor("scale", 5, delays) == pytest.approx([1, 1, 5 / 6, 0.5, 0.1])
    assert delay_factor("drop", 5, delays).tolist() == [1, 1, 0, 0, 0]
    assert delay_factor("none", 5, delays).tolist() == [1] * 5


def test_one_update_by_hand() -> None:
    """3 - 0.5 * 5/10 * (1 - 0.2) with a server step of a half and a delay of twice M."""
    method = bound(AsyncSGD(concurrency=5, server_learning_rate=0.5, delays="scale"))
    start, end = torch.tensor([[1.0]]).double(), torch.tensor([[0.2]]).double()
    state = method.init(torch.tensor([3.0]).double())
    after = method.aggregate(state, answers_of([0], [1], [10], start, end))
    assert float(after.model) == pytest.approx(3 - 0.5 * 0.5 * 0.8)


def test_average_delay_is_the_concurrency() -> None:
    """Koloskova et al.: the mean delay is tau_C - 1, up to the jobs open at the end."""
    fleet = two_speeds(50, seed=6)
    schedule = uniform(12, fleet, 5000, seed=6)
    assert len(schedule.client) - schedule.jobs == 12
    assert schedule.staleness.mean() == pytest.approx(11, abs=0.1)


def test_uniform_assignment_is_fair_and_the_other_is_not() -> None:
    fleet = two_speeds(30, seed=7)
    slow = fleet.mean == 16
    fair = uniform(30, fleet, 8000, seed=7)
    share = slow[fair.client[: fair.jobs]].mean()
    assert share == pytest.approx(slow.mean(), abs=0.03)
    biased = scheduled(same(fleet), 1000, seed=7)
    rate = 1 / fleet.mean
    assert slow[biased.client[: biased.jobs]].mean() == pytest.approx(
        rate[slow].sum() / rate.sum(), abs=0.01
    )


def test_the_adaptive_method_is_asyncsgd_with_other_defaults() -> None:
    """To the bit, with all clients at work, and with concurrency and a server step of one's own."""
    fleet = two_speeds(8, seed=4)
    plain = AsyncSGD(assignment="same", delays="scale")
    for options, other in (
        (AsyncSGDAdaptive(), plain),
        (
            AsyncSGDAdaptive(assignment="uniform", concurrency=3, server_learning_rate=0.2),
            AsyncSGD(delays="scale", concurrency=3, server_learning_rate=0.2),
        ),
    ):
        adaptive, expected = bound(options, fleet), bound(other, fleet)
        assert adaptive.policy() == expected.policy()
        schedule = scheduled(adaptive, 100, seed=4)
        actual = server_models(adaptive, schedule, quadratics(8), start_model())
        models = server_models(expected, schedule, quadratics(8), start_model())
        assert len(actual) > 10
        assert all(torch.equal(a, b) for a, b in zip(actual, models, strict=True))
