"""FedFix: FedAvg when the window is long (P11), and weights that give everybody its due."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from favano.methods.clock import ServerClock
from favano.methods.fedavg import FedAvg
from favano.methods.fedfix import FedFix
from favano.policies import Windowed
from favano.theory import expected_windows
from favano.timing import Deterministic, client_speeds, two_speeds
from tests.effective_weights import effective_weights
from tests.methods.bound import any_method, bound, scheduled
from tests.problems import answers_of, close, quadratics, server_models, start_model


def test_p11_a_window_for_the_slowest_is_fedavg() -> None:
    fleet = client_speeds(np.array([2.0, 5.0, 16.0, 7.0]), Deterministic())
    fixed = bound(FedFix(window=16.0 * 3), fleet)
    assert fixed.policy() == Windowed(period=16.0 * 3, local_steps=3)
    assert fixed.windows.tolist() == [1.0] * 4
    rounds = bound(FedAvg(), fleet, selected=4, clock=ServerClock(interaction_time=0.0))
    ticks, expected = scheduled(fixed, 500), scheduled(rounds, 500)
    assert ticks.time.tolist() == expected.time[: ticks.updates].tolist()
    assert ticks.updates == 10
    trainer, initial = quadratics(4), start_model()
    models = server_models(fixed, ticks, trainer, initial)
    plain = server_models(rounds, expected, trainer, initial)
    assert all(close(a, b) for a, b in zip(models, plain, strict=False))


def test_two_ticks_by_hand() -> None:
    """dt = 7, one step a job: client 0 (2) is back at both ticks, client 1 (9) at the second."""
    fleet = client_speeds(np.array([2.0, 9.0]), Deterministic())
    options = FedFix(window=7.0, server_learning_rate=0.5, sample_weights=True)
    fixed = bound(options, fleet, 1, samples=np.array([25.0, 75.0]))
    schedule = scheduled(fixed, 14)
    trainer, w0 = quadratics(2), start_model()
    models = server_models(fixed, schedule, trainer, w0)
    w1 = w0 + 0.5 * 0.25 * (trainer.local(0, w0, 1, 0.1) - w0)
    first, second = trainer.local(0, w1, 1, 0.1) - w1, trainer.local(1, w0, 1, 0.1) - w0
    w2 = w1 + 0.5 * (0.25 * first + 2 * 0.75 * second)
    assert all(close(a, b) for a, b in zip(models, [w0, w1, w2], strict=True))


def test_the_unbiased_weights_are_fair_and_identical_ones_are_not() -> None:
    fleet = two_speeds(30, seed=4)
    slow = fleet.mean == 16
    unbiased = bound(FedFix(window=7.0), fleet, 5)
    schedule = scheduled(unbiased, 7 * 3000, seed=4)
    exact = expected_windows(Windowed(period=7.0, local_steps=5), fleet)
    assert unbiased.windows.tolist() == exact.tolist()
    share = effective_weights(any_method(unbiased), schedule)
    assert share[slow].sum() == pytest.approx(slow.mean(), abs=0.01)
    identical = bound(FedFix(window=7.0, window_weights="identical"), fleet, 5)
    assert identical.windows.tolist() == [1.0] * 30
    assert effective_weights(any_method(identical), schedule)[slow].sum() < 0.12


def test_a_tick_at_which_nobody_is_back_leaves_the_model() -> None:
    fleet = client_speeds(np.array([20.0]), Deterministic())
    fixed = bound(FedFix(window=7.0), fleet, 1)
    models = server_models(fixed, scheduled(fixed, 21), quadratics(1), start_model())
    assert torch.equal(models[0], models[1])
    assert torch.equal(models[1], models[2])
    assert not torch.equal(models[2], models[3])
    server, back = torch.tensor([1.0]), torch.tensor([[4.0], [7.0]])
    assert fixed.aggregate_buffers(server, back, answers_of([0, 0], [1, 1], [0, 0])).tolist() == [
        4.0
    ]
