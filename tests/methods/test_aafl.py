"""AAFL: FedAvg when everybody counts (P11), one arrival at a time when one does."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest
import torch

from favano.errors import BadInput
from favano.methods.aafl import Aafl, first_arrivals
from favano.methods.fedasync import FedAsync
from favano.methods.fedavg import FedAvg
from favano.policies import Buffered
from favano.timing import two_speeds
from tests.methods.bound import bound, scheduled
from tests.problems import answers_of, close, quadratics, server_models, start_model


@pytest.mark.parametrize("weights", ["importance", "mean"])
def test_p11_waiting_for_all_is_fedavg(weights: Literal["importance", "mean"]) -> None:
    """Clients of any speed: the rounds, their times and their models are the same."""
    fleet = two_speeds(8, seed=5)
    rounds = bound(FedAvg(), fleet, selected=8)
    method = bound(Aafl(arrival_fraction=1.0, arrival_weights=weights), fleet)
    assert method.policy() == Buffered(buffer=8, local_steps=3, hand_out="flush")
    expected = scheduled(rounds, 1500, seed=5)
    schedule = scheduled(method, 1500, seed=5)
    assert schedule.updates > 10
    assert schedule.time.tolist() == expected.time[: schedule.updates].tolist()
    trainer, initial = quadratics(8), start_model()
    models = server_models(method, schedule, trainer, initial)
    plain = server_models(rounds, expected, trainer, initial)
    assert all(close(a, b) for a, b in zip(models, plain, strict=False))


def test_one_arrival_at_a_time_is_fedasync_with_the_clients_importance() -> None:
    fleet = two_speeds(8, seed=6)
    method = bound(Aafl(arrival_fraction=1 / 8), fleet)
    schedule = scheduled(method, 300, seed=6)
    trainer, initial = quadratics(8), start_model()
    models = server_models(method, schedule, trainer, initial)
    mixing = FedAsync(mixing=1 / 8, halve_mixing_at=0, staleness="constant", latency="server")
    expected = server_models(bound(mixing, fleet), schedule, trainer, initial)
    assert len(models) > 30
    assert all(close(a, b) for a, b in zip(models, expected, strict=True))


def test_unequal_importance_by_hand() -> None:
    samples = np.array([5.0, 2.0, 3.0])
    server = torch.tensor([10.0], dtype=torch.float64)
    end = torch.tensor([[20.0], [0.0]], dtype=torch.float64)
    updates = answers_of([2, 1], [3, 3], [0, 4], end, end)
    method = bound(Aafl(arrival_fraction=2 / 3, sample_weights=True), 3, samples=samples)
    state = method.aggregate(method.init(server), updates)
    assert float(state.model) == pytest.approx(0.5 * 10 + 0.3 * 20 + 0.2 * 0)
    mean = bound(Aafl(arrival_fraction=2 / 3, arrival_weights="mean"), 3)
    assert float(mean.aggregate(mean.init(server), updates).model) == 10.0


def test_contributors_start_again_and_the_others_go_on() -> None:
    fleet = two_speeds(10, seed=3)
    schedule = scheduled(bound(Aafl(arrival_fraction=0.2), fleet), 600, seed=3)
    used = slice(0, schedule.jobs)
    assert (np.bincount(schedule.used_by[used]) == 2).all()
    slow = fleet.mean[schedule.client[used]] == 16
    assert schedule.staleness[slow].mean() > 3 * schedule.staleness[~slow].mean() > 0
    for client in range(10):  # each begins again with the update that took it in
        mine = np.flatnonzero(schedule.client == client)
        mine = mine[np.argsort(schedule.begin[mine])]
        assert schedule.start_version[mine[1:]].tolist() == schedule.used_by[mine[:-1]].tolist()


def test_wrong_options_are_refused() -> None:
    with pytest.raises(BadInput, match=r"arrival_fraction=0: need greater than 0"):
        Aafl(arrival_fraction=0)
    with pytest.raises(BadInput, match=r"sample_weights=True: has no effect with .*=mean"):
        Aafl(arrival_weights="mean", sample_weights=True)
    with pytest.raises(BadInput, match="sample_weights=True: needs the data"):
        bound(Aafl(sample_weights=True)).context.shares(by_samples=True)


def test_shares_add_up_to_one_and_one_client_is_enough() -> None:
    context = bound(Aafl(), 3, samples=np.array([5.0, 2.0, 3.0])).context
    assert context.shares(by_samples=True).tolist() == [0.5, 0.2, 0.3]
    assert context.shares(by_samples=False).sum() == pytest.approx(1)
    assert first_arrivals(0.001, 5) == 1
