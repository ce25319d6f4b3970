"""Figure: test accuracy on MNIST against time, non-IID, two thirds of the clients fast."""

from __future__ import annotations

from favano.studies.experiment import Experiment, Run
from favano.studies.paper.methods import HEADINGS, MOSTLY_FAST, NAMES, OVER_TIME, four_methods


def figure_mnist(seeds: int) -> list[Run]:
    """The second column of Table 2; runs of the table are not run again."""
    return four_methods("mnist", (MOSTLY_FAST,), seeds)


FIGURE_MNIST = Experiment(
    name="figure-mnist",
    title="MNIST, two classes a client, one third of the clients slow",
    runs=figure_mnist,
    seeds=10,
    lines=NAMES,
    columns={MOSTLY_FAST: HEADINGS[MOSTLY_FAST]},
    figures={"figure": OVER_TIME},
)
