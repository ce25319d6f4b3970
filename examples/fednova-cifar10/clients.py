"""Whose each image of CIFAR-10 is, with the draws of the published split.

    python examples/fednova-cifar10/clients.py

writes clients.npy beside this file. Each class is divided over 16 clients by a draw from
Dirichlet(0.1), in which clients that have a sixteenth of the data already get nothing; all is drawn
again until everybody has ten images (Wang et al. 2020; Flower's baseline has the seed 2020 for all
runs). Each client has as many images of each class as there. Which ones differs: the files are in
another order.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt

CLIENTS, CONCENTRATION, LEAST, SEED = 16, 0.1, 10, 2020


def owners(labels: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The client of each sample."""
    draws = np.random.RandomState(SEED)  # as published, since other generators draw otherwise
    while True:
        owner, held = np.empty_like(labels), np.zeros(CLIENTS, dtype=np.int64)
        for label in range(labels.max() + 1):
            members = np.flatnonzero(labels == label)
            draws.shuffle(members)
            share = draws.dirichlet(np.full(CLIENTS, CONCENTRATION))
            share *= held < len(labels) / CLIENTS
            ends = (np.cumsum(share / share.sum()) * len(members)).astype(np.int64)[:-1]
            for client, some in enumerate(np.split(members, ends)):
                owner[some], held[client] = client, held[client] + len(some)
        if held.min() >= LEAST:
            return owner


def main(data_dir: Path | None) -> None:
    """Write the file."""
    from favano.data import load

    labels = np.asarray(load("cifar10", data_dir=data_dir).train.labels, dtype=np.int64)
    found, path = owners(labels), Path(__file__).with_name("clients.npy")
    np.save(path, found)
    print(f"{path}: {', '.join(map(str, np.bincount(found).tolist()))} images")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
