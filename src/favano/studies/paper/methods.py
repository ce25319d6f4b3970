"""The four methods and three settings of the paper's experiments, as keys of a specification."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from favano.methods import our_methods
from favano.studies.experiment import PAPER, StudyRun, seeded

METHODS: Final[Mapping[str, Mapping[str, object]]] = {
    "fedavg": {},
    "quafl": {},
    # Mode, server step and staleness weights are not in the paper; of the readings tried, these
    # come closest to its numbers in all three columns.
    "fedbuff": {"buffer_mode": "block", "server_learning_rate": 0.1, "staleness": "constant"},
    "favano": {},
}
NAMES: Final[Mapping[str, str]] = {name: our_methods()[name].title for name in METHODS}

READ_AS: Final = (
    "Read as: FedAvg's round lasts until the slowest of s clients has made K steps; QuAFL "
    "communicates exactly, client step η (s+1)/s; FedBuff in mode block, server step 0.1, constant "
    "staleness weights; FAVANO with stochastic weights by the exact law of the step count; two "
    "classes per client dealt out in blocks of five clients; pixels over 255; the official test "
    "set."
)

IID: Final = "iid"
MOSTLY_FAST: Final = "non-iid-2/3-fast"
MOSTLY_SLOW: Final = "non-iid-1/9-fast"
SETTINGS: Final[Mapping[str, Mapping[str, object]]] = {
    IID: {"split": "iid"},
    MOSTLY_FAST: {"split": "two-class"},
    MOSTLY_SLOW: {"split": "two-class", "fast_fraction": "1/9"},
}
HEADINGS: Final[Mapping[str, str]] = {
    IID: "IID",
    MOSTLY_FAST: "non-IID, 2/3 fast",
    MOSTLY_SLOW: "non-IID, 1/9 fast",
}

OVER_TIME: Final = ((("accuracy", "time"),),)
DETAILS: Final = tuple(
    tuple((measure, axis) for axis in ("time", "server_steps", "local_steps"))
    for measure in ("loss", "accuracy", "variance")
)


def four_methods(dataset: str, columns: Sequence[str], seeds: int) -> list[StudyRun]:
    """FedAvg, QuAFL, FedBuff and FAVANO on a data set, in some of the settings."""
    runs = []
    for column in columns:
        for method, keys in METHODS.items():
            own = {"dataset": dataset, "algorithm": method, **SETTINGS[column], **keys}
            runs += seeded(PAPER, column, own, range(seeds))
    return runs
