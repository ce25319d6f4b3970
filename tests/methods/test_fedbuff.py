"""FedBuff: its reductions to FedAvg (P6) and AsyncSGD (P7), and its four modes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from favano.errors import BadInput
from favano.methods.asyncsgd import AsyncSGD
from favano.methods.clock import ServerClock
from favano.methods.fedavg import FedAvg
from favano.methods.fedbuff import BufferMode, FedBuff
from favano.timing import Deterministic, client_speeds, two_speeds
from tests.methods.bound import bound, scheduled
from tests.problems import answers_of, close, quadratics, server_models, start_model


def test_p6_full_buffer_of_equal_clients_is_fedavg() -> None:
    fleet = client_speeds(np.full(7, 2.0), Deterministic())
    buffered = bound(FedBuff(buffer=7, buffer_mode="block", staleness="constant"), fleet)
    fedavg = bound(FedAvg(), fleet, selected=7)
    trainer, initial = quadratics(7), start_model()
    schedule, rounds = scheduled(buffered, 90), scheduled(fedavg, 90)
    assert schedule.time.tolist() == rounds.time.tolist()
    models = server_models(buffered, schedule, trainer, initial)
    expected = server_models(fedavg, rounds, trainer, initial)
    assert len(models) == len(expected) == 11
    assert all(close(a, b) for a, b in zip(models, expected, strict=True))


def test_p7_a_buffer_of_one_is_asyncsgd() -> None:
    fleet = two_speeds(9, seed=1)
    clock = ServerClock(interaction_time=0)
    options = FedBuff(buffer=1, buffer_mode="block", staleness="constant")
    buffered = bound(options, fleet, 1, clock=clock)
    each = AsyncSGD(assignment="same", latency="none", server_learning_rate=1.0)
    same = bound(each, fleet, 1, clock=clock)
    trainer, initial = quadratics(9), start_model()
    models = server_models(buffered, scheduled(buffered, 60, seed=1), trainer, initial)
    expected = server_models(same, scheduled(same, 60, seed=1), trainer, initial)
    assert len(models) > 100
    assert all(close(a, b) for a, b in zip(models, expected, strict=True))


@pytest.mark.parametrize("mode", ["concurrency", "block", "code", "reset"])
def test_modes_keep_their_promises(mode: BufferMode) -> None:
    fleet = two_speeds(30, seed=3)
    concurrency = 10 if mode == "concurrency" else None
    options = FedBuff(buffer=4, buffer_mode=mode, concurrency=concurrency)
    schedule = scheduled(bound(options, fleet, 5), 3000, seed=3)
    assert (np.bincount(schedule.used_by[: schedule.jobs]) == 4).all()
    assert (schedule.staleness >= 0).all()
    assert (schedule.steps[: schedule.jobs] == 5).all()
    if mode == "reset":
        assert (schedule.staleness == 0).all()
        assert schedule.wasted_steps.sum() > 0
    else:
        assert schedule.staleness.max() > 0
    if mode in ("block", "code", "reset"):
        sets = schedule.client[: schedule.jobs].reshape(-1, 4)
        assert all(len(set(row)) == 4 for row in sets.tolist())


def test_staleness_weighs_each_update() -> None:
    method = bound(FedBuff(buffer=2, server_learning_rate=0.5))
    start = torch.tensor([[1.0], [1.0]], dtype=torch.float64)
    end = torch.tensor([[0.0], [3.0]], dtype=torch.float64)
    updates = answers_of([0, 1], [1, 1], [0, 3], start, end)
    state = method.aggregate(method.init(start[0]), updates)
    assert float(state.model) == pytest.approx(1 - 0.5 * (1.0 * 1 + 0.5 * -2) / 2)


def test_buffers_are_averaged_with_the_servers() -> None:
    method = bound(FedBuff(buffer=2))
    clients, server = torch.tensor([[3.0], [10.0]]), torch.tensor([2.0])
    updates = answers_of([0, 1], [1, 1], [0, 9])  # staleness weighs updates, not buffers
    assert method.aggregate_buffers(server, clients, updates).tolist() == [5.0]


def test_scaled_rates_and_the_default_buffer() -> None:
    """Client steps times Z/n; ten updates where no data set says otherwise."""
    scaled = bound(FedBuff(buffer=4, rate_scale="buffer"), 16)
    schedule = scheduled(scaled, 100)
    assert set(scaled.rates(schedule).tolist()) == {0.25}
    plain = bound(FedBuff(), 16)
    assert set(plain.rates(schedule).tolist()) == {1.0}
    assert plain.policy().buffer == 10  # type: ignore[union-attr]


def test_options_without_effect_are_refused() -> None:
    with pytest.raises(BadInput, match="concurrency=5: requires buffer_mode=concurrency"):
        FedBuff(buffer_mode="block", concurrency=5)
    with pytest.raises(BadInput, match="distinct=True: has no effect with buffer_mode=reset"):
        FedBuff(buffer_mode="reset", distinct=True)
