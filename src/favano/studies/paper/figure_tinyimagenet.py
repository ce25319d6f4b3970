"""Figure: ResNet-18 on an IID split of TinyImageNet."""

from __future__ import annotations

from favano.studies.experiment import Experiment, Run
from favano.studies.paper.methods import HEADINGS, IID, NAMES, OVER_TIME, four_methods


def figure_tinyimagenet(seeds: int) -> list[Run]:
    """Four methods, IID, one third of the clients slow."""
    return four_methods("tiny-imagenet", (IID,), seeds)


FIGURE_TINYIMAGENET = Experiment(
    name="figure-tinyimagenet",
    title="TinyImageNet, ResNet-18, IID, one third of the clients slow",
    runs=figure_tinyimagenet,
    seeds=3,
    lines=NAMES,
    columns={IID: HEADINGS[IID]},
    figures={"figure": OVER_TIME},
)
