"""Trained models: every method on three networks, and the options that change what is learnt.

A model is recorded by its norm and by its products with 16 fixed random vectors, in 64 bits; a list
is compared relative to its largest number, so these are relative to the model. Counts of steps and
bits are the same on every machine, digests of rows and models on the machine of the record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
from torch import Tensor, nn

import favano
from tests.golden.front_door import command, folder
from tests.golden.records import BYTES, Values, digest

TOLERANCE: Final = 1e-3
Case: TypeAlias = str | Mapping[str, Any]  # a command, or keys of favano.simulate and a network

_PROJECTIONS: Final = 16
_COUNTS: Final = ("server_steps", "local_steps", "bits_up", "bits_down", "refused_updates")
_CELLS: Final = (
    *("time", "server_step", "local_steps", "bits_up", "bits_down"),
    *("loss", "variance", "potential", "contributed_steps", "energy"),
)


class Lstm(nn.Module):
    """Reads the eight rows of an image, one after the other."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = nn.LSTM(8, 12, batch_first=True)
        self.output = nn.Linear(12, 10)

    def forward(self, images: Tensor) -> Tensor:
        hidden, _ = self.rows(images.reshape(-1, 8, 8))
        logits: Tensor = self.output(hidden[:, -1])
        return logits


def convnet() -> nn.Module:
    """Two convolutions with BatchNorm."""
    first = (nn.Conv2d(1, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(2))
    second = (nn.Conv2d(6, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU())
    return nn.Sequential(*first, *second, nn.Flatten(), nn.Linear(128, 10))


NETWORKS: Final[Mapping[str, Callable[[], nn.Module] | None]] = {
    "digits": None,  # the data set's own, a perceptron
    "convnet": convnet,
    "lstm": Lstm,
}
_S: Final = {"selected": 3}
_K: Final = {"local_steps": 4}
_ROUNDS: Final = _S | _K | {"deadline": 20.0, "at_deadline": "take"}
METHODS: Final[Mapping[str, Mapping[str, Any]]] = {  # with the keys that they look at
    "favano": _S | _K,
    "favano-delta": _S | _K,
    "fedavg": _ROUNDS,
    "quafl": _S | _K,
    "fedbuff": _S | _K | {"buffer": 2},
    "asyncsgd": _S,
    "asyncsgd-adaptive": {},
    "fedasync": _K,
    "aafl": _K,
    "fedfix": _K,
    "scaffold": _ROUNDS,
    "asyncfeded": _K,
    "fedprox": _ROUNDS,
    "fednova": _ROUNDS,
    "asofed": _K,
}
_SMALL: Final = {"clients": 9, "horizon": 200.0, "evaluate_every": 50.0, "learning_rate": 0.1}

# Flags are the whole description of a run; where a flag is given twice, the last one counts.
_FLAGS: Final = "--clients 9 --batch-size 16 --learning-rate 0.1 --horizon 250 --evaluate-every 50"
_LINES: Final = Path(__file__).with_name("runs.txt").read_text(encoding="utf-8").splitlines()
_RUNS: Final = dict(line.split(": ", 1) for line in _LINES if line and not line.startswith("#"))
_FILES: Final = {
    "steps.csv": "client,duration\n"
    + "".join(
        f"{client},{duration}\n"
        for client in range(9)
        for duration in (1 + client, 2.5, 4 + client % 3)
    ),
    "poison.toml": '[[fault]]\nwho = "30 % of nodes"\nwhen = "25 s"\nwhat = "poison -1"\n',
}

CASES: Final[Mapping[str, Case]] = {
    **{
        f"{method}, {network}": {"method": method, "network": network, **_SMALL, **keys}
        for method, keys in METHODS.items()
        for network in NETWORKS
    },
    **{name: f"favano run {_FLAGS} {flags} --out result" for name, flags in _RUNS.items()},
}
QUICK: Final = (
    *(f"{method}, digits" for method in METHODS),
    *("favano, convnet", "fedbuff, convnet", "fedavg, lstm", "asofed, lstm"),
    *("codec-lattice-quafl", "luq-favano", "adam-kept", "server-adam", "loop-fedbuff", "presence"),
)


def record(case: Case) -> Values:
    """The final numbers and the model of each seed, and the loss of each evaluation."""
    if isinstance(case, str):
        with folder(_FILES) as here:
            code = command(case).code
            (result,) = favano.load(here / "result").results
            return {"exit code": code, **values_of(result)}
    keys = dict(case)
    network = NETWORKS[keys.pop("network")]
    problem = favano.Problem(network, dataset="digits", batch_size=16)
    return values_of(favano.simulate(keys.pop("method"), problem, progress=False, **keys))


def values_of(result: favano.Result) -> Values:
    """What is recorded of a result; digests apart."""
    seeds: Values = {}
    digests: Values = {}
    for run in result.runs:
        rows = [row for row in result.rows if row.seed == run.seed]
        state = result.models.get(run.seed, {})  # empty in studies, which keep no models
        arrays = [tensor.numpy() for _, tensor in sorted(state.items())]
        seeds[f"seed {run.seed}"] = {
            **{name: getattr(run, name) for name in _COUNTS},
            "times": [row.time for row in rows],
            "losses": [row.loss for row in rows],
            "variances": [row.variance for row in rows],
            "gradients": [row.gradient for row in result.bounds if row.seed == run.seed],
            "norm and projections": projections(arrays) if arrays else None,
        }
        cells = [[getattr(row, name) for name in _CELLS] for row in rows]
        digests[f"seed {run.seed}"] = {
            "rows": digest(repr([cells, [dict(row.metrics) for row in rows]]).encode()),
            "model": digest(b"".join(array.tobytes() for array in arrays)),
        }
    return {"status": result.status, **seeds, BYTES: digests}


def projections(arrays: Sequence[npt.NDArray[Any]]) -> list[float]:
    """The norm of a model, and its products with vectors that are the same each time."""
    model = np.concatenate([array.ravel().astype(np.float64) for array in arrays])
    vectors = np.random.default_rng(0).random((_PROJECTIONS, len(model))) - 0.5
    return [float(np.linalg.norm(model)), *(vectors @ model).tolist()]
