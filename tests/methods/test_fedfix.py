"""FedFix: FedAvg when the window is long (P11), and weights that give everybody its due."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from favano.engine import effective_weights
from favano.methods.fedavg import FedAvg
from favano.methods.fedfix import FedFix
from favano.schedule import Barrier, Window, plan
from favano.theory import expected_windows
from favano.timing import Deterministic, make_fleet, two_speeds
from tests.problems import close, quadratics, server_models, start_model, visit_of


def test_p11_a_window_for_the_slowest_is_fedavg() -> None:
    fleet = make_fleet(np.array([2.0, 5.0, 16.0, 7.0]), Deterministic())
    policy = Window(period=16.0 * 3, local_steps=3)
    windows = expected_windows(policy, fleet)
    assert windows.tolist() == [1.0] * 4
    fixed = FedFix(policy=policy, importance=np.full(4, 0.25), windows=windows)
    rounds = Barrier(selected=4, local_steps=3, interaction_time=0.0)
    ticks = plan(policy, fleet, horizon=500, seed=0)
    expected = plan(rounds, fleet, horizon=500, seed=0)
    assert ticks.time.tolist() == expected.time[: ticks.updates].tolist()
    assert ticks.updates == 10
    trainer, initial = quadratics(4), start_model()
    found = server_models(fixed, ticks, trainer, initial)
    plain = server_models(FedAvg(policy=rounds), expected, trainer, initial)
    assert all(close(a, b) for a, b in zip(found, plain, strict=False))


def test_two_ticks_by_hand() -> None:
    """dt = 7, one step a job: client 0 (2) is back at both ticks, client 1 (9) at the second."""
    fleet = make_fleet(np.array([2.0, 9.0]), Deterministic())
    policy = Window(period=7.0, local_steps=1)
    schedule = plan(policy, fleet, horizon=14, seed=0)
    fixed = FedFix(
        policy=policy,
        importance=np.array([0.25, 0.75]),
        windows=expected_windows(policy, fleet),
        server_learning_rate=0.5,
    )
    trainer, w0 = quadratics(2), start_model()
    found = server_models(fixed, schedule, trainer, w0)
    w1 = w0 + 0.5 * 0.25 * (trainer.local(0, w0, 1, 0.1) - w0)
    first, second = trainer.local(0, w1, 1, 0.1) - w1, trainer.local(1, w0, 1, 0.1) - w0
    w2 = w1 + 0.5 * (0.25 * first + 2 * 0.75 * second)
    assert all(close(a, b) for a, b in zip(found, [w0, w1, w2], strict=True))


def test_the_unbiased_weights_are_fair_and_identical_ones_are_not() -> None:
    fleet = two_speeds(30, seed=4)
    slow = fleet.mean == 16
    policy = Window(period=7.0, local_steps=5)
    schedule = plan(policy, fleet, horizon=7 * 3000, seed=4)
    importance = np.full(30, 1 / 30)
    unbiased = FedFix(policy=policy, importance=importance, windows=expected_windows(policy, fleet))
    share = effective_weights(unbiased, schedule)
    assert share[slow].sum() == pytest.approx(slow.mean(), abs=0.01)
    identical = FedFix(policy=policy, importance=importance, windows=np.ones(30))
    assert effective_weights(identical, schedule)[slow].sum() < 0.12


def test_a_tick_at_which_nobody_is_back_leaves_the_model() -> None:
    fleet = make_fleet(np.array([20.0]), Deterministic())
    policy = Window(period=7.0, local_steps=1)
    schedule = plan(policy, fleet, horizon=21, seed=0)
    fixed = FedFix(policy=policy, importance=np.ones(1), windows=expected_windows(policy, fleet))
    found = server_models(fixed, schedule, quadratics(1), start_model())
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[1], found[2])
    assert not torch.equal(found[2], found[3])
    server, back = torch.tensor([1.0]), torch.tensor([[4.0], [7.0]])
    assert fixed.average(server, back, visit_of([0, 0], [1, 1], [0, 0])).tolist() == [4.0]
