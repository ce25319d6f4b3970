"""The tables and figures of the paper by name, one file each."""

from collections.abc import Mapping, Sequence
from typing import Final

from favano.errors import need
from favano.studies.experiment import Experiment
from favano.studies.paper.figure_cifar10 import FIGURE_CIFAR10
from favano.studies.paper.figure_mnist import FIGURE_MNIST
from favano.studies.paper.figure_mnist_slow import FIGURE_MNIST_SLOW
from favano.studies.paper.figure_quantisation import FIGURE_QUANTISATION
from favano.studies.paper.figure_tinyimagenet import FIGURE_TINYIMAGENET
from favano.studies.paper.table_1 import NAME as TABLE_1
from favano.studies.paper.table_2 import TABLE_2

EXPERIMENTS: Final[Mapping[str, Experiment]] = {
    one.name: one
    for one in (
        TABLE_2,
        FIGURE_MNIST,
        FIGURE_MNIST_SLOW,
        FIGURE_CIFAR10,
        FIGURE_TINYIMAGENET,
        FIGURE_QUANTISATION,
    )
}
ALL: Final = "all"
KNOWN: Final = (TABLE_1, *EXPERIMENTS, ALL)

__all__ = ["ALL", "EXPERIMENTS", "KNOWN", "TABLE_1", "named"]


def named(name: str) -> Sequence[Experiment]:
    """The experiments that a name stands for; none for `table-1`, which is computed, not run."""
    need(name in KNOWN, "name", name, f"need one of {', '.join(KNOWN)}")
    return [one for key, one in EXPERIMENTS.items() if name in (key, ALL)]
