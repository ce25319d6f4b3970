"""Table 2: final accuracy on MNIST, four methods in three settings, ten seeds."""

from __future__ import annotations

from favano.studies.experiment import Experiment, StudyRun
from favano.studies.paper.methods import HEADINGS, NAMES, READ_AS, SETTINGS, four_methods
from favano.studies.paper.readings import MNIST_READINGS
from favano.studies.paper.search import PAPER_SEARCH


def table_2(seeds: int) -> list[StudyRun]:
    """The runs of every cell."""
    return four_methods("mnist", tuple(SETTINGS), seeds)


_PAPER = {  # mean and standard deviation over 10 random experiments
    "fedavg": ((93.4, 0.3), (38.7, 7.7), (44.8, 6.9)),
    "quafl": ((92.3, 0.9), (40.7, 6.7), (45.5, 4.0)),
    "fedbuff": ((96.0, 0.1), (85.1, 3.2), (67.3, 5.5)),
    "favano": ((95.1, 0.1), (88.9, 0.9), (87.3, 2.3)),
}

TABLE_2 = Experiment(
    name="table-2",
    title="MNIST: test accuracy of a shallow network",
    runs=table_2,
    seeds=10,
    lines=NAMES,
    columns=HEADINGS,
    paper={
        (method, column): cell
        for method, cells in _PAPER.items()
        for column, cell in zip(SETTINGS, cells, strict=True)
    },
    readings=MNIST_READINGS,
    note=READ_AS,
    search=PAPER_SEARCH,
)
