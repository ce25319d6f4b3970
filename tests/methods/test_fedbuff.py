"""FedBuff: its reductions to FedAvg (P6) and AsyncSGD (P7), and its four modes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from favano.methods.asyncsgd import AsyncSGD
from favano.methods.fedavg import FedAvg
from favano.methods.fedbuff import BufferMode, FedBuff
from favano.methods.staleness import Polynomial
from favano.schedule import Arrival, Barrier, plan
from favano.timing import Deterministic, make_fleet, two_speeds
from tests.MISSING import buffer_policy
from tests.problems import close, quadratics, server_models, start_model, visit_of

CONSTANT = Polynomial(0.0)


def test_p6_full_buffer_of_equal_clients_is_fedavg() -> None:
    fleet = make_fleet(np.full(7, 2.0), Deterministic())
    policy = buffer_policy(
        "block", clients=7, buffer=7, local_steps=3, concurrency=7, interaction_time=3
    )
    trainer, initial = quadratics(7), start_model()
    buffered = FedBuff(policy=policy, staleness=CONSTANT)
    schedule = plan(policy, fleet, horizon=90, seed=0)
    barrier = Barrier(selected=7, local_steps=3)
    rounds = plan(barrier, fleet, horizon=90, seed=0)
    assert schedule.time.tolist() == rounds.time.tolist()
    found = server_models(buffered, schedule, trainer, initial)
    expected = server_models(FedAvg(policy=barrier), rounds, trainer, initial)
    assert len(found) == len(expected) == 11
    assert all(close(a, b) for a, b in zip(found, expected, strict=True))


def test_p7_a_buffer_of_one_is_asyncsgd() -> None:
    fleet = two_speeds(9, seed=1)
    buffered = buffer_policy(
        "block", clients=9, buffer=1, local_steps=1, concurrency=9, interaction_time=0
    )
    same = Arrival(buffer=1, local_steps=1, hand_out="flush", interaction_time=0, latency="none")
    trainer, initial = quadratics(9), start_model()
    found = server_models(
        FedBuff(policy=buffered, staleness=CONSTANT),
        plan(buffered, fleet, horizon=60, seed=1),
        trainer,
        initial,
    )
    expected = server_models(
        AsyncSGD(policy=same, concurrency=9),
        plan(same, fleet, horizon=60, seed=1),
        trainer,
        initial,
    )
    assert len(found) > 100
    assert all(close(a, b) for a, b in zip(found, expected, strict=True))


@pytest.mark.parametrize("mode", ["concurrency", "block", "code", "reset"])
def test_modes_keep_their_promises(mode: BufferMode) -> None:
    fleet = two_speeds(30, seed=3)
    policy = buffer_policy(
        mode, clients=30, buffer=4, local_steps=5, concurrency=10, interaction_time=3
    )
    schedule = plan(policy, fleet, horizon=3000, seed=3)
    assert (np.bincount(schedule.visit[: schedule.jobs]) == 4).all()
    assert (schedule.staleness >= 0).all()
    assert (schedule.steps[: schedule.jobs] == 5).all()
    if mode == "reset":
        assert (schedule.staleness == 0).all()
        assert schedule.lost.sum() > 0
    else:
        assert schedule.staleness.max() > 0
    if mode in ("block", "code", "reset"):
        sets = schedule.client[: schedule.jobs].reshape(-1, 4)
        assert all(len(set(row)) == 4 for row in sets.tolist())


def test_staleness_weighs_each_update() -> None:
    policy = Arrival(buffer=2, local_steps=1, hand_out="flush")
    algorithm = FedBuff(policy=policy, server_learning_rate=0.5)
    start = torch.tensor([[1.0], [1.0]], dtype=torch.float64)
    end = torch.tensor([[0.0], [3.0]], dtype=torch.float64)
    visit = visit_of([0, 1], [1, 1], [0, 3])
    found = algorithm.update(algorithm.init(start[0]), visit, start, end)
    assert float(found.model) == pytest.approx(1 - 0.5 * (1.0 * 1 + 0.5 * -2) / 2)


def test_buffers_are_averaged_with_the_servers() -> None:
    algorithm = FedBuff(policy=Arrival(buffer=2, local_steps=1, hand_out="flush"))
    clients, server = torch.tensor([[3.0], [10.0]]), torch.tensor([2.0])
    visit = visit_of([0, 1], [1, 1], [0, 9])  # staleness weighs updates, not buffers
    assert algorithm.average(server, clients, visit).tolist() == [5.0]
