"""FEMNIST by writer and Shakespeare by role: four methods with tuned rates. Not in the paper.

Clients are as fast as in the paper, and the server's clock is the paper's. FAVANO's contacts find
fast clients done with their K steps, and some of the slow ones still at work.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from favano.methods import our_methods
from favano.records.ledger import TUNED
from favano.studies.experiment import Experiment, Reading, StudyRun, seeded
from favano.studies.search import RateSearch, Rung, Search, SearchGrid

_METHODS: Final = ("fedavg", "fedbuff", "favano", "favano-delta")
_CLIENT = (1 / 4, 1 / 2, 1, 2, 4)
_GRIDS: Final[Mapping[str, SearchGrid]] = {
    "fedavg": SearchGrid(_CLIENT, server=(0.3, 1.0, 3.0)),
    "fedbuff": SearchGrid(_CLIENT, server=(1.0, 3.0, 10.0)),
    "favano": SearchGrid(tuple(2 ** (half / 2) for half in range(-7, 8)), server=(1.0,)),
    "favano-delta": SearchGrid(_CLIENT, server=(1.0, 3.0, 10.0)),
}
_COLUMN = "natural"
_OVER_TIME = ((("accuracy", "time"), ("accuracy", "local_steps")),)
_READINGS = {"fedavg-longer": Reading("FedAvg, five times as long", ("fedavg",), {}, time=5.0)}
_CLOCK = (
    "Published runs count rounds; here all methods have the same simulated time, in which FedAvg, "
    "which waits for the slowest client, makes far fewer local steps than the others"
)

FEMNIST_KEYS: Final[Mapping[str, object]] = {  # the data say how many clients there are
    "dataset": "femnist",
    "selected": 30,
    "local_steps": 5,
    "learning_rate": 0.1,
    "horizon": 12000.0,
    "evaluate_every": 400.0,
}
SHAKESPEARE_KEYS: Final[Mapping[str, object]] = {
    "dataset": "shakespeare",
    "clients": 100,
    "selected": 10,
    "local_steps": 5,
    "learning_rate": 2.0,
    "horizon": 24000.0,
    "evaluate_every": 1200.0,
}


def natural_runs(keys: Mapping[str, object], seeds: int) -> list[StudyRun]:
    """The runs of every method on one data set."""
    return [
        run
        for method in _METHODS
        for run in seeded(TUNED, _COLUMN, {**keys, "algorithm": method}, range(seeds))
    ]


def _experiment(
    keys: Mapping[str, object],
    title: str,
    heading: str,
    rates: RateSearch,
    about: Mapping[str, str],
) -> Experiment:
    return Experiment(
        name=str(keys["dataset"]),
        title=title,
        runs=partial(natural_runs, keys),
        seeds=3,
        lines={name: our_methods()[name].title for name in _METHODS},
        columns={_COLUMN: heading},
        figures={"figure": _OVER_TIME},
        readings=_READINGS,
        search=rates,
        ours=True,
        about={"search": _words(rates.search), **about},
    )


def _words(search: Search) -> str:
    first, *others = search.rungs
    return (
        f"every method tries {first.points} pairs of rates with {search.seeds} seed, judged on "
        f"{search.holdout:,} held-out training samples after {100 * first.time:g} % of the time"
        + (f"; the best {others[0].points} go on to the end." if others else ".")
    )


FEMNIST: Final = _experiment(
    FEMNIST_KEYS,
    "FEMNIST by writer: LEAF's network with two convolutions",
    "by writer",
    # After a fifth of the time some have learnt nothing yet.
    RateSearch(_GRIDS, Search((Rung(0.2, 15), Rung(1.0, 5)), holdout=4000)),
    {
        "published": (
            "FedAvg reaches 84.9 % on EMNIST with 62 classes in Reddi et al. (Adaptive Federated "
            "Optimization, ICLR 2021, Table 1), with 3,400 writers, 10 of them per round, in 1,500 "
            "rounds, and a network with dropout."
        ),
        "data": (
            "300 of LEAF's about 3,500 writers, without most of those with many images; 41,495 "
            "training images, and 4,763 test images of the same writers, in LEAF's own split; 71 % "
            f"of the training images are digits. {_CLOCK}."
        ),
    },
)

SHAKESPEARE: Final = _experiment(
    SHAKESPEARE_KEYS,
    "Shakespeare by role: the next character, by LEAF's LSTM",
    "100 roles",
    RateSearch(_GRIDS, Search((Rung(0.25, 15),), holdout=4000)),
    {
        "published": (
            "FedAvg reaches 56.9 % in Reddi et al. (Adaptive Federated Optimization, ICLR 2021, "
            "Table 1), with 715 roles, 10 of them per round, in 1,200 rounds, and the loss of "
            "every character of a window instead of the last one."
        ),
        "data": (
            "Each seed trains on 100 roles drawn from 862, and tests on the last fifth of the text "
            "of all 862, in 10,175 windows of 80 characters that do not overlap; published runs "
            f"train on all roles. The text is another edition, cut into windows by us. {_CLOCK}."
        ),
    },
)

NATURAL: Final = (FEMNIST, SHAKESPEARE)
