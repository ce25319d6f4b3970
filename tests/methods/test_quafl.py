"""QuAFL: conservation of the sum of all models (P4), and synchronous SGD as a special case (P5)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from favano.engine import PlainLoop
from favano.errors import BadInput
from favano.methods.quafl import Quafl
from favano.policies import Polling
from favano.timing import Conditions, Deterministic, Presence, client_speeds, two_speeds
from tests.methods.bound import bound, scheduled
from tests.problems import (
    answers_of,
    close,
    make_aggregator,
    quadratics,
    server_models,
    start_model,
)

CLIENTS = 10


def test_p4_only_gradients_move_the_sum_of_all_models() -> None:
    method = bound(Quafl(), two_speeds(CLIENTS, seed=2), 5, selected=3)
    assert method.policy() == Polling(selected=3, local_steps=5)
    schedule = scheduled(method, 7 * 80, seed=2)
    trainer, initial = quadratics(CLIENTS), start_model()
    rate = 0.1 * 4 / 3
    own = initial.repeat(CLIENTS, 1)
    server = initial
    offsets = schedule.offsets
    aggregator = make_aggregator(method, schedule, initial)
    for event in PlainLoop(aggregator, trainer).events():
        if event.version < 0:
            continue
        jobs = slice(int(offsets[event.version]), int(offsets[event.version + 1]))
        clients = schedule.client[jobs]
        live = torch.stack(
            [
                trainer.local(int(i), own[i], int(k), rate)
                for i, k in zip(clients, schedule.steps[jobs], strict=True)
            ]
        )
        total = server + own.sum(dim=0)
        progress = (live - own[clients]).sum(dim=0)
        own = own.clone()
        own[clients] = (server + 3 * live) / 4  # the old server model is handed out
        assert close(event.server, (server + live.sum(dim=0)) / 4)
        assert close(event.server + own.sum(dim=0), total + progress)
        wrong = own.clone()
        wrong[clients] = (event.server + 3 * live) / 4
        server = event.server
        spread = event.clients.spread(server)
        assert float(spread.distances[0]) == pytest.approx(
            float((own - server).square().sum()), rel=1e-10
        )
    assert not close(server + wrong.sum(dim=0), total + progress, 1e-6)


def test_p5_equal_models_and_one_step_are_synchronous_sgd() -> None:
    fleet = client_speeds(np.full(CLIENTS, 7.0), Deterministic())
    method = bound(Quafl(), fleet, 1, selected=CLIENTS)
    trainer, initial = quadratics(CLIENTS), start_model()
    models = server_models(method, scheduled(method, 7), trainer, initial)
    gradients = torch.stack([trainer.gradient(i, initial) for i in range(CLIENTS)])
    assert close(models[1], initial - 0.1 * gradients.mean(dim=0))


def test_options_of_the_simulator() -> None:
    server, own = torch.tensor([1.0]), torch.tensor([[3.0], [5.0], [5.0], [7.0]])
    adopting = bound(Quafl(client_averaging=False), selected=4)
    assert adopting.next_client_model(server, own).flatten().tolist() == [1.0] * 4
    plain = bound(Quafl(server_averaging=False), selected=4)
    updates = answers_of([0, 1, 2, 3], [1] * 4, [0] * 4)
    assert plain.aggregate_buffers(server, own, updates).tolist() == [5.0]
    schedule = scheduled(plain, 30)
    assert set(plain.rates(schedule).tolist()) == {1.0}
    assert set(bound(Quafl(), selected=4).rates(schedule).tolist()) == {1.25}


def test_dampening_slows_down_the_steps_of_fast_clients() -> None:
    """All are asked every 7: steps of 3.5 make 2 of them, steps of 0.875 make 8."""
    fleet = client_speeds(np.array([3.5, 0.875]), Deterministic())
    dampened = bound(Quafl(rate_scale="none", dampening=True), fleet, 10, selected=2)
    schedule = scheduled(dampened, 7)
    assert sorted(schedule.steps[: schedule.jobs].tolist()) == [2, 8]
    rates = dict(zip(schedule.client.tolist(), dampened.rates(schedule).tolist(), strict=True))
    assert rates == {0: 1.0, 1: 0.25}


def test_nobody_expects_steps_of_clients_that_come_and_go() -> None:
    """What is expected up to a horizon would change with it."""
    there = Presence(np.array([0, 1, 2]), np.zeros(2), np.array([9.0, 70.0]))
    fleet = replace(client_speeds(np.array([2.0, 4.0])), conditions=Conditions(presence=there))
    dampened = bound(Quafl(dampening=True), fleet, 10, selected=2)
    with pytest.raises(BadInput, match=r"^dampening=True: needs steps that are expected"):
        dampened.rates(scheduled(dampened, 70))
