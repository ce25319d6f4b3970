"""Other readings of what the paper leaves open, where they could matter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from favano.studies.experiment import Reading
from favano.studies.paper.methods import METHODS

_ALL = tuple(METHODS)
_FAVANO = ("favano",)
_FEDBUFF = ("fedbuff",)

_NONE: Final = Reading("FAVANO without reweighting", _FAVANO, {"reweight": "none"})
_DELTA: Final = Reading("FAVANO-delta (not in the paper)", _FAVANO, {"algorithm": "favano-delta"})
_FASTER: Final = {"learning_rate": 0.05}

MNIST_READINGS: Final[Mapping[str, Reading]] = {
    "favano-deterministic": Reading(
        "FAVANO, deterministic weights E[min(E, K)]", _FAVANO, {"reweight": "deterministic"}
    ),
    "favano-literal": Reading(
        "FAVANO, E[min(Geom(λ), K)] read literally: 2 fast, 11.6 slow",
        _FAVANO,
        {"reweight": "deterministic", "weights": "given", "given_weights": (1.999998, 11.599059)},
    ),
    "favano-none": _NONE,
    "favano-delta": _DELTA,
    "fedbuff-server-1": Reading(
        "FedBuff `block`, server step 1", _FEDBUFF, {"server_learning_rate": 1.0}
    ),
    "fedbuff-concurrency": Reading(
        "FedBuff `concurrency`, server step 1, weights (1+τ)^(−1/2)",
        _FEDBUFF,
        {"buffer_mode": "concurrency", "server_learning_rate": 1.0, "staleness": "polynomial:0.5"},
    ),
    "fedbuff-reset": Reading(
        "FedBuff `reset`, server step 1",
        _FEDBUFF,
        {"buffer_mode": "reset", "server_learning_rate": 1.0},
    ),
    "fedbuff-reset-0.2": Reading(
        "FedBuff `reset`, client step 0.2, server step 1",
        _FEDBUFF,
        {"buffer_mode": "reset", "server_learning_rate": 1.0, "learning_rate": 0.2},
    ),
    "split-free": Reading(
        "each client draws its two classes by itself",
        _ALL,
        {"split": "two-class-free"},
        splits=True,
    ),
    "split-shards": Reading(
        "two shards of sorted labels per client", _ALL, {"split": "shards:2"}, splits=True
    ),
    "normalised": Reading("pixels minus 0.1307 over 0.3081", _ALL, {"normalise": True}),
    "holdout": Reading("tested on 10,000 training images instead", _ALL, {"holdout": 10000}),
}

CIFAR10_READINGS: Final[Mapping[str, Reading]] = {
    "favano-none": _NONE,
    "favano-delta": _DELTA,
    "rate-0.05": Reading("learning rate 0.05", _ALL, _FASTER),
    "favano-none-0.05": Reading(
        "learning rate 0.05, FAVANO without reweighting", _FAVANO, {**_NONE.keys, **_FASTER}
    ),
    "favano-delta-0.05": Reading(
        "learning rate 0.05, FAVANO-delta", _FAVANO, {**_DELTA.keys, **_FASTER}
    ),
    "rate-0.2": Reading("learning rate 0.2", _ALL, {"learning_rate": 0.2}),
}
