"""The tables and figures of the paper by name."""

from collections.abc import Mapping, Sequence
from typing import Final

from favano.errors import need
from favano.studies.experiment import Experiment
from favano.studies.paper.figures import FIGURES
from favano.studies.paper.table_1 import NAME as TABLE_1
from favano.studies.paper.table_2 import TABLE_2

EXPERIMENTS: Final[Mapping[str, Experiment]] = {one.name: one for one in (TABLE_2, *FIGURES)}
ALL: Final = "all"
KNOWN: Final = (TABLE_1, *EXPERIMENTS, ALL)

__all__ = ["ALL", "EXPERIMENTS", "KNOWN", "TABLE_1", "named"]


def named(name: str) -> Sequence[Experiment]:
    """The experiments of a name; none for `table-1`, which is computed and needs no runs."""
    need(name in KNOWN, "name", name, f"need one of {', '.join(KNOWN)}")
    return [one for key, one in EXPERIMENTS.items() if name in (key, ALL)]
