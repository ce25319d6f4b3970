"""Figure: MNIST with one client in nine fast, accuracy and variance against three clocks."""

from __future__ import annotations

from favano.studies.experiment import Experiment, Run
from favano.studies.paper.methods import DETAILS, HEADINGS, MOSTLY_SLOW, NAMES, four_methods


def figure_mnist_slow(seeds: int) -> list[Run]:
    """The third column of Table 2; runs of the table are not run again."""
    return four_methods("mnist", (MOSTLY_SLOW,), seeds)


FIGURE_MNIST_SLOW = Experiment(
    name="figure-mnist-slow",
    title="MNIST, two classes a client, one client in nine fast",
    runs=figure_mnist_slow,
    seeds=10,
    lines=NAMES,
    columns={MOSTLY_SLOW: HEADINGS[MOSTLY_SLOW]},
    figures={"figure": ((("accuracy", "time"), ("variance", "time")),), "details": DETAILS},
)
