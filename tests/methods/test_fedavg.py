"""FedAvg against the mean of models written out by hand."""

from __future__ import annotations

import numpy as np
import torch

from favano.methods.fedavg import FedAvg
from favano.schedule import Barrier, plan
from favano.timing import make_fleet, two_speeds
from tests.problems import close, quadratics, server_models, start_model, visit_of


def test_is_plain_model_averaging() -> None:
    fleet = two_speeds(8, seed=0)
    policy = Barrier(selected=3, local_steps=4)
    schedule = plan(policy, fleet, horizon=2000, seed=0)
    trainer, model = quadratics(8), start_model()
    found = server_models(FedAvg(policy=policy), schedule, trainer, model)
    offsets = schedule.offsets
    assert schedule.updates > 5
    for version, after in enumerate(found[1:]):
        clients = schedule.client[offsets[version] : offsets[version + 1]]
        assert len(clients) == 3
        model = torch.stack([trainer.local(int(i), model, 4, 0.1) for i in clients]).mean(dim=0)
        assert close(after, model)


def test_one_client_is_local_sgd() -> None:
    fleet = make_fleet(np.array([2.0]))
    policy = Barrier(selected=1, local_steps=3)
    schedule = plan(policy, fleet, horizon=100, seed=0)
    trainer, initial = quadratics(1), start_model()
    found = server_models(FedAvg(policy=policy), schedule, trainer, initial)
    assert close(found[-1], trainer.local(0, initial, 3 * schedule.updates, 0.1))


def test_weights_by_samples() -> None:
    algorithm = FedAvg(policy=Barrier(selected=2, local_steps=1), samples=np.array([1.0, 9.0, 3.0]))
    start = torch.zeros(2, 1, dtype=torch.float64)
    end = torch.tensor([[4.0], [8.0]], dtype=torch.float64)
    visit = visit_of([0, 2], [1, 1], [0, 0])
    found = algorithm.update(algorithm.init(start[0]), visit, start, end)
    assert float(found.model) == 4 / 4 + 8 * 3 / 4
    averaged = algorithm.average(torch.tensor([100.0]), torch.tensor([[1.0], [3.0]]), visit)
    assert averaged.tolist() == [2.0]
