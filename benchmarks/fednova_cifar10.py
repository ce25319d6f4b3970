"""A published number: Flower's baseline of FedNova, with local epochs on unequal clients.

    python benchmarks/fednova_cifar10.py [--methods fedavg,fednova] [--seeds 3] [--rounds 100]
                                         [--device cuda] [--precision bf16] [--out FOLDER]

CIFAR-10 over 16 clients by the baseline's own Dirichlet draw, VGG-11 with dropout, batch 32, rate
0.02, weight decay 1e-4, two local epochs, all clients in every round; published after 100 rounds:
FedAvg 62.35 +- 1.33, FedNova 67.04 +- 0.94 (github.com/adap/flower, baselines/fednova). The folder
holds a result for each method, and is gone on with if it is there.
"""

from __future__ import annotations

import argparse
import os
from itertools import pairwise
from math import sqrt
from pathlib import Path

import numpy as np
from torch import nn

import favano
from favano.data import load
from favano.types import Ints

CLIENTS, CONCENTRATION, CLASSES, SEED = 16, 0.1, 10, 2020
BATCH, EPOCHS = 32, 2
PUBLISHED = {"fedavg": (62.35, 1.33), "fednova": (67.04, 0.94)}


def vgg11() -> nn.Module:
    """VGG-11 for 32 x 32 images: 9,750,922 parameters."""
    layers: list[nn.Module] = []
    widths = [3, 64, 128, 256, 256, 512, 512, 512, 512]
    for number, (before, after) in enumerate(pairwise(widths)):
        convolution = nn.Conv2d(before, after, 3, padding=1)
        nn.init.normal_(convolution.weight, std=sqrt(2 / (9 * after)))
        nn.init.zeros_(convolution.bias)
        layers += [convolution, nn.ReLU()]
        if number in (0, 1, 3, 5, 7):
            layers.append(nn.MaxPool2d(2))
    for _ in range(2):
        layers += [nn.Dropout(), nn.Linear(512, 512), nn.ReLU()]
    layers.insert(-6, nn.Flatten())
    return nn.Sequential(*layers, nn.Linear(512, CLASSES))


def partition(labels: Ints) -> list[Ints]:
    """Samples per client: class by class in Dirichlet proportions, nothing to those with enough."""
    draw, enough = np.random.RandomState(SEED), len(labels) / CLIENTS
    clients: list[Ints] = [np.empty(0, dtype=np.int64)] * CLIENTS
    while min(map(len, clients)) < CLASSES:
        clients = [np.empty(0, dtype=np.int64)] * CLIENTS
        for label in range(CLASSES):
            places = np.flatnonzero(labels == label)
            draw.shuffle(places)
            share = draw.dirichlet(np.full(CLIENTS, CONCENTRATION))
            share *= [len(client) < enough for client in clients]
            ends = (np.cumsum(share / share.sum()) * len(places)).astype(int)[:-1]
            parts = np.split(places, ends)
            clients = [np.concatenate(pair) for pair in zip(clients, parts, strict=True)]
    return clients


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--methods", default="fedavg,fednova")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--precision", default="bf16")
    parser.add_argument("--data-fraction", type=float, default=1.0, help="to try the script")
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("FAVANO_DATA"))
    parser.add_argument("--out", type=Path, default=Path("favano-results/fednova-cifar10"))
    given = parser.parse_args()

    parts = partition(np.asarray(load("cifar10", data_dir=given.data_dir).train.labels))
    parts = [part[: max(1, int(len(part) * given.data_fraction))] for part in parts]
    steps = [EPOCHS * -(-len(part) // BATCH) for part in parts]
    print("samples:", [len(part) for part in parts], "steps:", steps)
    problem = favano.Problem(
        vgg11,
        dataset="cifar10",
        split=parts,
        batch_size=BATCH,
        data_dir=given.data_dir,
    )
    fleet = favano.Fleet(clients=CLIENTS, mean=[1.0] * CLIENTS, step_law="deterministic")
    for method in given.methods.split(","):
        result = favano.simulate(
            method, problem, fleet, selected=CLIENTS, local_epochs=EPOCHS, learning_rate=0.02,
            weight_decay=1e-4, sample_weights=True, waiting_time=0.0, interaction_time=0.0,
            horizon=given.rounds * max(steps), evaluate_every=5 * max(steps), seeds=given.seeds,
            device=given.device, precision=given.precision, checkpoints=given.out / f".{method}",
        )  # fmt: skip
        result.save(given.out / method)
        accuracies = 100 * np.array([rows[-1].accuracy for rows in result.history.values()])
        mean, error = accuracies.mean(), 1.96 * accuracies.std() / sqrt(len(accuracies))
        print(f"{method}: {mean:.2f} +- {error:.2f} {accuracies}, published {PUBLISHED[method]}")


if __name__ == "__main__":
    main()
