"""A program: methods on a problem of its own, compared and tuned, here or on a cluster.

Network, loss and metric, and the class of a method, are in this file alone.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torch import Tensor, nn

import favano
from favano.methods import AMethod

SCALE = 0.9


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.width = nn.Linear(6, 8), nn.Linear(8, 1), 8

    def forward(self, inputs: Tensor) -> Tensor:
        return self.second(torch.tanh(self.first(inputs)))  # type: ignore[no-any-return]


def loss(outputs: Tensor, targets: Tensor) -> Tensor:
    return SCALE * ((outputs - targets) ** 2).mean()


def absolute(outputs: Tensor, targets: Tensor) -> float:
    return float((outputs - targets).abs().mean())


class Halved(favano.Method[favano.ModelState]):
    """FedAvg with half a step."""

    linear = True
    share: float = favano.option(0.5, "of the step of the server")

    def policy(self) -> favano.Policy:
        return self.context.rounds()

    def aggregate(self, state, updates):  # type: ignore[no-untyped-def]
        delta = updates.weighted_delta(torch.full((len(updates.client),), 1 / len(updates.client)))
        return favano.ModelState(state.model + self.share * delta)


def problem() -> favano.Problem:
    generator = torch.Generator().manual_seed(3)
    inputs = torch.randn(240, 6, generator=generator)
    targets = inputs[:, :1] * 2 + 0.1 * torch.randn(240, 1, generator=generator)
    return favano.Problem(
        Net, train=(inputs[:200], targets[:200]), test=(inputs[200:], targets[200:]), loss=loss,
        metrics={"absolute": favano.Metric(absolute, best="low")}, split="iid", batch_size=8,
    )  # fmt: skip


def main() -> None:
    out, *cluster = sys.argv[1:]
    methods: list[AMethod] = ["favano", favano.FedBuff(buffer=3), Halved(share=0.25)]
    results = favano.compare(
        methods, problem(), favano.Fleet.two_speeds(8, fast=0.5), selected=3, horizon=120,
        local_steps=4, learning_rate=0.05, evaluate_every=40, seeds=2,
        checkpoints=Path(out) / "checkpoints", cluster=cluster[0] if cluster else None,
    )  # fmt: skip
    results.save(Path(out) / "results")
    favano.tune(
        ["favano", "fedbuff"], problem(), favano.Fleet.two_speeds(8, fast=0.5), selected=3,
        horizon=40, local_steps=4, grid={"learning_rate": [0.05, 0.1]}, progress=False,
        out=Path(out) / "tuning", cluster=cluster[0] if cluster else None,
    )  # fmt: skip


if __name__ == "__main__":
    main()
