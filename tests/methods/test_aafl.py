"""AAFL: FedAvg when everybody counts (P11), one arrival at a time when one does."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from favano.errors import BadInput
from favano.methods.aafl import Aafl, first_arrivals
from favano.methods.fedasync import FedAsync
from favano.methods.fedavg import FedAvg
from favano.methods.staleness import Polynomial
from favano.schedule import Arrival, Barrier, plan
from favano.timing import two_speeds
from tests.problems import close, quadratics, server_models, start_model, visit_of

EQUAL = np.full(8, 1 / 8)


def first(count: int) -> Arrival:
    return Arrival(buffer=count, local_steps=3, hand_out="flush")


@pytest.mark.parametrize("weights", ["importance", "mean"])
def test_p11_waiting_for_all_is_fedavg(weights: str) -> None:
    """Clients of any speed: the rounds, their times and their models are the same."""
    fleet = two_speeds(8, seed=5)
    rounds = Barrier(selected=8, local_steps=3)
    policy = first(first_arrivals(1.0, 8))
    expected = plan(rounds, fleet, horizon=1500, seed=5)
    schedule = plan(policy, fleet, horizon=1500, seed=5)
    assert schedule.updates > 10
    assert schedule.time.tolist() == expected.time[: schedule.updates].tolist()
    trainer, initial = quadratics(8), start_model()
    algorithm = Aafl(policy=policy, importance=EQUAL, weights=weights)  # type: ignore[arg-type]
    found = server_models(algorithm, schedule, trainer, initial)
    plain = server_models(FedAvg(policy=rounds), expected, trainer, initial)
    assert all(close(a, b) for a, b in zip(found, plain, strict=False))


def test_one_arrival_at_a_time_is_fedasync_with_the_clients_importance() -> None:
    fleet = two_speeds(8, seed=6)
    schedule = plan(first(1), fleet, horizon=300, seed=6)
    trainer, initial = quadratics(8), start_model()
    found = server_models(Aafl(policy=first(1), importance=EQUAL), schedule, trainer, initial)
    mixing = FedAsync(policy=first(1), mixing=1 / 8, halved_at=None, staleness=Polynomial(0.0))
    expected = server_models(mixing, schedule, trainer, initial)
    assert len(found) > 30
    assert all(close(a, b) for a, b in zip(found, expected, strict=True))


def test_unequal_importance_by_hand() -> None:
    importance = np.array([0.5, 0.2, 0.3])
    server = torch.tensor([10.0], dtype=torch.float64)
    end = torch.tensor([[20.0], [0.0]], dtype=torch.float64)
    visit = visit_of([2, 1], [3, 3], [0, 4])
    algorithm = Aafl(policy=first(2), importance=importance)
    found = algorithm.update(algorithm.init(server), visit, end, end)
    assert float(found.model) == pytest.approx(0.5 * 10 + 0.3 * 20 + 0.2 * 0)
    mean = Aafl(policy=first(2), importance=importance, weights="mean")
    assert float(mean.update(mean.init(server), visit, end, end).model) == 10.0


def test_contributors_start_again_and_the_others_go_on() -> None:
    fleet = two_speeds(10, seed=3)
    schedule = plan(first(first_arrivals(0.2, 10)), fleet, horizon=600, seed=3)
    used = slice(0, schedule.jobs)
    assert (np.bincount(schedule.visit[used]) == 2).all()
    slow = fleet.mean[schedule.client[used]] == 16
    assert schedule.staleness[slow].mean() > 3 * schedule.staleness[~slow].mean() > 0
    for client in range(10):  # each begins again with the update that took it in
        mine = np.flatnonzero(schedule.client == client)
        mine = mine[np.argsort(schedule.begin[mine])]
        assert schedule.base[mine[1:]].tolist() == schedule.visit[mine[:-1]].tolist()


def test_wrong_numbers_are_refused() -> None:
    with pytest.raises(BadInput, match=r"arrival_fraction=0: need a number in \(0, 1\]"):
        first_arrivals(0, 5)
    with pytest.raises(BadInput, match=r"importance=2.0: need numbers >= 0 of sum 1"):
        Aafl(policy=first(1), importance=np.ones(2))
