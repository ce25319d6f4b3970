"""The tables and figures of the paper that need runs."""

from typing import Final

from favano.studies.experiment import Experiment
from favano.studies.paper.figures import FIGURES
from favano.studies.paper.table_2 import TABLE_2

PAPERS: Final[tuple[Experiment, ...]] = (TABLE_2, *FIGURES)

__all__ = ["PAPERS"]
