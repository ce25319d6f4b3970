"""The figures of the paper. Those on MNIST share their runs with Table 2."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from favano.studies.experiment import Experiment, StudyRun, seeded
from favano.studies.paper.methods import (
    DETAILS,
    HEADINGS,
    IID,
    MOSTLY_FAST,
    MOSTLY_SLOW,
    NAMES,
    OVER_TIME,
    SETTINGS,
    four_methods,
)
from favano.studies.paper.readings import CIFAR10_READINGS
from favano.studies.paper.search import PAPER_SEARCH

_SELECTED = (5, 10, 20, 50)  # the paper varies s and does not give the values
_WIDTHS: Mapping[str, Mapping[str, object]] = {"32 bits": {}, "QNN": {"quantise": "luq"}}
_LINES = {f"s = {s}, {width}": (s, width) for s in _SELECTED for width in _WIDTHS}


def quantisation_runs(seeds: int) -> list[StudyRun]:
    """FAVANO for each s and width; FAVANO[QNN] is FAVANO with `quantise=luq` and its defaults."""
    runs = []
    for line, (selected, width) in _LINES.items():
        keys = {"dataset": "cifar10", "selected": selected, **SETTINGS[MOSTLY_FAST]}
        runs += seeded(line, MOSTLY_FAST, {**keys, **_WIDTHS[width]}, range(seeds))
    return runs


FIGURES = (
    Experiment(
        name="figure-mnist",
        title="MNIST, two classes per client, one third of the clients slow",
        runs=partial(four_methods, "mnist", (MOSTLY_FAST,)),
        seeds=10,
        lines=NAMES,
        search=PAPER_SEARCH,
        columns={MOSTLY_FAST: HEADINGS[MOSTLY_FAST]},
        figures={"figure": OVER_TIME},
    ),
    Experiment(
        name="figure-mnist-slow",
        title="MNIST, two classes per client, one client in nine fast",
        runs=partial(four_methods, "mnist", (MOSTLY_SLOW,)),
        seeds=10,
        lines=NAMES,
        search=PAPER_SEARCH,
        columns={MOSTLY_SLOW: HEADINGS[MOSTLY_SLOW]},
        figures={"figure": ((("accuracy", "time"), ("variance", "time")),), "details": DETAILS},
    ),
    Experiment(
        name="figure-cifar10",
        title="CIFAR-10, ResNet-20, two classes per client, one third of the clients slow",
        runs=partial(four_methods, "cifar10", (MOSTLY_FAST,)),
        seeds=3,
        lines=NAMES,
        search=PAPER_SEARCH,
        columns={MOSTLY_FAST: HEADINGS[MOSTLY_FAST]},
        figures={"figure": OVER_TIME, "details": DETAILS},
        readings=CIFAR10_READINGS,
    ),
    Experiment(
        name="figure-tinyimagenet",
        title="TinyImageNet, ResNet-18, IID, one third of the clients slow",
        runs=partial(four_methods, "tiny-imagenet", (IID,)),
        seeds=3,
        lines=NAMES,
        search=PAPER_SEARCH,
        columns={IID: HEADINGS[IID]},
        figures={"figure": OVER_TIME},
    ),
    Experiment(
        name="figure-quantisation",
        title="CIFAR-10, ResNet-20, FAVANO with s clients contacted per step",
        runs=quantisation_runs,
        seeds=3,
        lines={line: f"FAVANO, {line}" for line in _LINES},
        columns={MOSTLY_FAST: HEADINGS[MOSTLY_FAST]},
        figures={"figure": OVER_TIME},
        note=(
            "The paper varies s without giving the values; these are ours. QNN: 3 bits for weights "
            "and activations (SAWB), 4 for neural gradients (LUQ), in all layers but the first "
            "convolution and the last linear layer; scored with quantised weights and activations."
        ),
    ),
)
