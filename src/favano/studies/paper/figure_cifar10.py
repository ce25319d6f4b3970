"""Figure: ResNet-20 on a non-IID split of CIFAR-10."""

from __future__ import annotations

from favano.studies.experiment import Experiment, Run
from favano.studies.paper.methods import (
    DETAILS,
    HEADINGS,
    MOSTLY_FAST,
    NAMES,
    OVER_TIME,
    four_methods,
)
from favano.studies.paper.readings import CIFAR10_READINGS


def figure_cifar10(seeds: int) -> list[Run]:
    """Four methods, two classes a client, one third of the clients slow."""
    return four_methods("cifar10", (MOSTLY_FAST,), seeds)


FIGURE_CIFAR10 = Experiment(
    name="figure-cifar10",
    title="CIFAR-10, ResNet-20, two classes a client, one third of the clients slow",
    runs=figure_cifar10,
    seeds=3,
    lines=NAMES,
    columns={MOSTLY_FAST: HEADINGS[MOSTLY_FAST]},
    figures={"figure": OVER_TIME, "details": DETAILS},
    readings=CIFAR10_READINGS,
)
