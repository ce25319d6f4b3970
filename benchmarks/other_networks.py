"""Networks that have no kernels of their own, in lanes and in the plain loop.

    python benchmarks/other_networks.py lstm|transformer|convnet [KEY=VALUE ...] [--seconds 5]

Synthetic images of 28 x 28, batches of 128, ten seeds of FAVANO; what `favano bench` measures, as
one line of JSON.
"""

from __future__ import annotations

import argparse
import json
from typing import Final

from torch import Tensor, nn

from favano.run.samples import ModelFactory
from favano.specification.presets import resolve
from favano.specification.spec import make_spec
from favano.studies.bench import Effort, bench, bench_samples

CLASSES = 10
SIDE = 28


class Lstm(nn.Module):
    """Reads an image row by row."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.rows = nn.LSTM(SIDE, width, batch_first=True)
        self.classes = nn.Linear(width, CLASSES)

    def forward(self, images: Tensor) -> Tensor:
        states, _ = self.rows(images.flatten(1, 2))
        scores: Tensor = self.classes(states[:, -1])
        return scores


class Transformer(nn.Module):
    """Two layers over the rows of an image."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.rows = nn.Linear(SIDE, width)
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2)
        self.classes = nn.Linear(width, CLASSES)

    def forward(self, images: Tensor) -> Tensor:
        scores: Tensor = self.classes(self.layers(self.rows(images.flatten(1, 2))).mean(dim=1))
        return scores


def convnet() -> nn.Module:
    """Two convolutions of 5 x 5, as in the paper of FedAvg."""
    return nn.Sequential(
        *(nn.Conv2d(1, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(32, 64, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(64 * 49, 512), nn.ReLU(), nn.Linear(512, CLASSES)),
    )


NETWORKS: Final[dict[str, ModelFactory]] = {
    "lstm": Lstm,
    "transformer": Transformer,
    "convnet": convnet,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("network", choices=NETWORKS)
    parser.add_argument("keys", nargs="*", metavar="KEY=VALUE")
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--repeats", type=int, default=1)
    asked = parser.parse_args()
    keys = dict(pair.split("=", 1) for pair in asked.keys)
    spec = resolve(make_spec({"dataset": "mnist", "seeds": "10", **keys}))
    effort = Effort(seconds=asked.seconds, repeats=asked.repeats)
    document = bench(spec, bench_samples(spec, True), effort, NETWORKS[asked.network])
    print(json.dumps(document), flush=True)


if __name__ == "__main__":
    main()
