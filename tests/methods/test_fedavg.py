"""FedAvg against the mean of models written out by hand."""

from __future__ import annotations

import numpy as np
import torch

from favano.methods.fedavg import FedAvg
from favano.methods.fedprox import FedProx
from favano.policies import Rounds
from favano.timing import client_speeds, two_speeds
from tests.methods.bound import bound, scheduled
from tests.problems import answers_of, close, quadratics, server_models, start_model


def test_is_plain_model_averaging() -> None:
    method = bound(FedAvg(), two_speeds(8, seed=0), 4, selected=3)
    assert method.policy() == Rounds(selected=3, local_steps=4)
    schedule = scheduled(method, 2000)
    trainer, model = quadratics(8), start_model()
    models = server_models(method, schedule, trainer, model)
    offsets = schedule.offsets
    assert schedule.updates > 5
    for version, after in enumerate(models[1:]):
        clients = schedule.client[offsets[version] : offsets[version + 1]]
        assert len(clients) == 3
        model = torch.stack([trainer.local(int(i), model, 4, 0.1) for i in clients]).mean(dim=0)
        assert close(after, model)


def test_one_client_is_local_sgd() -> None:
    method = bound(FedAvg(), client_speeds(np.array([2.0])), 3, selected=1)
    schedule = scheduled(method, 100)
    trainer, initial = quadratics(1), start_model()
    models = server_models(method, schedule, trainer, initial)
    assert close(models[-1], trainer.local(0, initial, 3 * schedule.updates, 0.1))


def test_weights_by_samples() -> None:
    method = bound(FedAvg(sample_weights=True), 3, 1, samples=np.array([1.0, 9.0, 3.0]))
    start = torch.zeros(2, 1, dtype=torch.float64)
    end = torch.tensor([[4.0], [8.0]], dtype=torch.float64)
    updates = answers_of([0, 2], [1, 1], [0, 0], start, end)
    state = method.aggregate(method.init(start[0]), updates)
    assert float(state.model) == 4 / 4 + 8 * 3 / 4
    averaged = method.aggregate_buffers(
        torch.tensor([100.0]), torch.tensor([[1.0], [3.0]]), updates
    )
    assert averaged.tolist() == [2.0]


def test_fedprox_is_fedavg_that_suggests_a_pull() -> None:
    """The server does the same, to the bit; the pull is local training's."""
    fleet, trainer = two_speeds(8, seed=0), quadratics(8)
    plain, pulled = (bound(method, fleet, 4, selected=3) for method in (FedAvg(), FedProx()))
    assert plain.policy() == pulled.policy()
    schedule = scheduled(plain, 900)
    models = server_models(pulled, schedule, trainer, start_model())
    expected = server_models(plain, schedule, trainer, start_model())
    assert all(torch.equal(a, b) for a, b in zip(models, expected, strict=True))
    assert FedProx.suggests == {"proximal": 0.01}
    assert FedAvg.suggests == {}
