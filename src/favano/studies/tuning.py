"""Tunes the learning rates of every method by the same search.

Each method tries 35 pairs of client and server rate on held-out seeds, evaluated on images held out
of the training data; the pair with the best mean accuracy is then run on the reported seeds. No
reported seed and no test image is used for the choice. Grids are meant to be wide enough that the
best pair lies inside; the table of chosen rates marks pairs at the edge.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Final, NamedTuple

from favano.options import options_of
from favano.records import Entry, rates_tried
from favano.specification.spec import Spec, given
from favano.studies.experiment import Run, make

TUNED: Final = "tuned"
SEEDS: Final = (1000, 1001)  # reported seeds are 0, 1, ... and stay below
HOLDOUT: Final[Mapping[str, int]] = {"digits": 287}  # images; 10,000 of the other sets
_HOLDOUT = 10000


class Grid(NamedTuple):
    """Client rates as multiples of the paper's, and server rates; 35 pairs for every method."""

    client: tuple[float, ...]
    server: tuple[float, ...]


_ONE_RATE = Grid(client=tuple(2 ** (third / 3) for third in range(-17, 18)), server=(1.0,))
_CLIENT = (1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1, 2)
GRIDS: Final[Mapping[str, Grid]] = {
    "favano": _ONE_RATE,
    "quafl": _ONE_RATE,
    "fedbuff": Grid(_CLIENT, server=(0.03, 0.1, 0.2, 0.4, 1.0)),
    "fedavg": Grid(_CLIENT, server=(0.5, 1.0, 1.5, 2.0, 3.0)),
}


def tuning_runs(runs: Sequence[Run]) -> list[Run]:
    """The runs that tune every method and column of `runs`."""
    found = []
    for run in {_cell(run): run for run in runs}.values():
        grid, rate = GRIDS[run.spec.method.name], given(run.spec.training.learning_rate)
        holdout = {"holdout": HOLDOUT.get(run.spec.problem.dataset, _HOLDOUT)}
        for factor, server in product(grid.client, grid.server):
            name = f"client {factor * rate:.4g}, server {server:.4g}"
            spec = make(_with(run.spec, factor * rate, server), holdout)
            found += [Run(name, run.column, make(spec, {"seed": seed})) for seed in SEEDS]
    return found


def tuned_runs(runs: Sequence[Run], tried: Sequence[Entry]) -> list[Run]:
    """The runs with the best rates for their method and column."""
    found = rates_tried(tried)
    return [Run(TUNED, run.column, _with(run.spec, *found[_cell(run)][0][:2])) for run in runs]


def _cell(run: Run) -> tuple[str, str]:
    return run.spec.name, run.column


def _with(spec: Spec, client: float | None, server: float | None) -> Spec:
    keys = {"learning_rate": client, "server_learning_rate": server}
    if "server_learning_rate" not in options_of(type(spec.method)):
        del keys["server_learning_rate"]
    return make(spec, keys)
