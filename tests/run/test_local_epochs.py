"""Local epochs and K per client, against loops of plain PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Subset, TensorDataset

import favano
from favano.errors import BadInput
from favano.run import engines
from favano.specification.keys import Keys
from tests.run.cpu_stacks import cpu_stacks

BATCH, RATE, ROUNDS = 8, 0.1, 3
FLEET = favano.Fleet(mean=[1.0] * 5, step_law="deterministic")


class Case(NamedTuple):
    """A problem whose result does not depend on the order of a client's samples."""

    sizes: list[int]
    model: nn.Module
    inputs: Tensor
    targets: Tensor
    loss: Callable[[Tensor, Tensor], Tensor]

    @property
    def parts(self) -> list[list[int]]:
        bounds = np.cumsum([0, *self.sizes]).tolist()
        return [list(range(*pair)) for pair in pairwise(bounds)]

    @property
    def problem(self) -> favano.Problem:
        data = self.inputs, self.targets
        return favano.Problem(
            self.model, train=data, test=data, split=self.parts, batch_size=BATCH, loss=self.loss
        )


def one_weight_per_sample() -> Case:
    """The result shows how often each sample was seen; all batches of a client are of one size."""
    torch.manual_seed(3)
    sizes = [3, 16, 8, 32, 1]
    rows = sum(sizes)
    model = nn.Linear(rows, 1, bias=False)
    return Case(sizes, model, torch.eye(rows), torch.randn(rows, 1), nn.functional.mse_loss)


def one_kind_of_sample_per_client() -> Case:
    """The result shows how many steps each client made; the last batch of an epoch is short."""
    torch.manual_seed(4)
    sizes = [3, 17, 8, 30, 1]
    kind = torch.repeat_interleave(torch.arange(5), torch.tensor(sizes))
    model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 5))
    return Case(sizes, model, torch.randn(5, 4)[kind], kind, nn.functional.cross_entropy)


def by_hand(case: Case, epochs: int) -> list[Tensor]:
    """FedAvg as everybody writes it, with weights by samples."""
    model, data = case.model, TensorDataset(case.inputs, case.targets)
    server = [value.detach().clone() for value in model.parameters()]
    for _ in range(ROUNDS):
        total = [torch.zeros_like(value) for value in server]
        for part in case.parts:
            with torch.no_grad():
                for value, start in zip(model.parameters(), server, strict=True):
                    value.copy_(start)
            sgd = torch.optim.SGD(model.parameters(), lr=RATE)
            batches = DataLoader(Subset(data, part), batch_size=BATCH, shuffle=True)
            for _ in range(epochs):
                for inputs, targets in batches:
                    sgd.zero_grad()
                    torch.autograd.backward(case.loss(model(inputs), targets))
                    sgd.step()
            for mean, end in zip(total, model.parameters(), strict=True):
                mean += len(part) / len(data) * end.detach()
        server = total
    return server


@pytest.mark.parametrize("engine", ["loop", "lanes", "stacks"])
@pytest.mark.parametrize("epochs", [1, 2])
@pytest.mark.parametrize("make", [one_weight_per_sample, one_kind_of_sample_per_client])
def test_fedavg_is_the_loop_that_everybody_writes(
    make: Callable[[], Case], epochs: int, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = make()
    longest = 4 * epochs  # 30 or 32 samples in batches of 8
    keys: Keys = {"horizon": ROUNDS * (longest + 1.0), "drop_last": True, "interaction_time": 1.0}
    if engine == "loop":
        keys["engine"] = "loop"
    if engine == "stacks":
        monkeypatch.setattr(engines, "_steps", cpu_stacks)
    method = favano.FedAvg(sample_weights=True)
    keys |= {"local_epochs": epochs, "selected": 5, "learning_rate": RATE}
    result = favano.simulate(method, case.problem, FLEET, **keys)
    assert result.summary.runs[0].server_steps == ROUNDS
    expected = by_hand(make(), epochs)
    for mine, theirs in zip(result.models[0].values(), expected, strict=True):
        assert (mine - theirs).abs().max() < 1e-6


def test_a_list_gives_each_client_its_own_k() -> None:
    problem = one_weight_per_sample().problem
    plan = favano.plan("fedavg", problem, FLEET, local_steps=[1, 2, 3, 4, 5], selected=5)
    assert (plan.schedule.steps == plan.schedule.client + 1).all()
    with pytest.raises(BadInput, match=r"^local_steps=4 numbers: need one number for all clients,"):
        favano.plan("fedavg", problem, FLEET, local_steps=[1, 2, 3, 4])
    with pytest.raises(BadInput, match=r"^local_steps.2=0: need greater than or equal to 1"):
        favano.plan("fedavg", problem, FLEET, local_steps=[1, 2, 0, 4, 5])
