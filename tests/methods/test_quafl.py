"""QuAFL: conservation of the sum of all models (P4), and synchronous SGD as a special case (P5)."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from favano.engine import replayed
from favano.methods.quafl import Quafl
from favano.schedule import Poll, plan
from favano.timing import Deterministic, make_fleet, two_speeds
from tests.problems import close, make_replay, quadratics, server_models, start_model, visit_of

CLIENTS = 10


def test_p4_only_gradients_move_the_sum_of_all_models() -> None:
    fleet = two_speeds(CLIENTS, seed=2)
    policy = Poll(selected=3, local_steps=5)
    algorithm = Quafl(policy=policy)
    schedule = plan(policy, fleet, horizon=7 * 80, seed=2)
    trainer, initial = quadratics(CLIENTS), start_model()
    rate = 0.1 * 4 / 3
    own = initial.repeat(CLIENTS, 1)
    server = initial
    offsets = schedule.offsets
    replay = make_replay(algorithm, schedule, initial)
    for moment in replayed(replay, trainer):
        if moment.version < 0:
            continue
        jobs = slice(int(offsets[moment.version]), int(offsets[moment.version + 1]))
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
        assert close(moment.server, (server + live.sum(dim=0)) / 4)
        assert close(moment.server + own.sum(dim=0), total + progress)
        wrong = own.clone()
        wrong[clients] = (moment.server + 3 * live) / 4
        server = moment.server
        spread = replay.store.spread(server, 4)
        assert spread.variance == pytest.approx(float((own - server).square().sum()), rel=1e-10)
    assert not close(server + wrong.sum(dim=0), total + progress, 1e-6)


def test_p5_equal_models_and_one_step_are_synchronous_sgd() -> None:
    fleet = make_fleet(np.full(CLIENTS, 7.0), Deterministic())
    policy = Poll(selected=CLIENTS, local_steps=1)
    schedule = plan(policy, fleet, horizon=7, seed=0)
    trainer, initial = quadratics(CLIENTS), start_model()
    found = server_models(Quafl(policy=policy), schedule, trainer, initial)
    gradients = torch.stack([trainer.gradient(i, initial) for i in range(CLIENTS)])
    assert close(found[1], initial - 0.1 * gradients.mean(dim=0))


def test_options_of_the_simulator() -> None:
    policy = Poll(selected=4, local_steps=5)
    server, own = torch.tensor([1.0]), torch.tensor([[3.0], [5.0], [5.0], [7.0]])
    adopting = Quafl(policy=policy, client_averaging=False)
    assert adopting.restart(server, own).flatten().tolist() == [1.0] * 4
    plain = Quafl(policy=policy, server_averaging=False)
    visit = visit_of([0, 1, 2, 3], [1] * 4, [0] * 4)
    assert plain.average(server, own, visit).tolist() == [5.0]
    assert plain.rate(np.array([0])).tolist() == [1.0]
    assert Quafl(policy=policy).rate(np.array([0])).tolist() == [1.25]
    dampened = Quafl(policy=policy, scaled_rate=False, dampening=np.array([2.0, 8.0]))
    assert dampened.rate(np.array([0, 1])).tolist() == [1.0, 0.25]
