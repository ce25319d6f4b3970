"""Every experiment by name: the paper's tables and figures, and ours on natural data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from favano.errors import require
from favano.studies.experiment import Experiment
from favano.studies.natural import NATURAL
from favano.studies.paper import PAPERS
from favano.studies.paper.table_1 import NAME as TABLE_1

EXPERIMENTS: Final[Mapping[str, Experiment]] = {
    experiment.name: experiment for experiment in (*PAPERS, *NATURAL)
}
ALL: Final = "all"  # the paper's
KNOWN: Final = (TABLE_1, *EXPERIMENTS, ALL)


def named(name: str) -> Sequence[Experiment]:
    """The experiments of a name; none for `table-1`, which is computed and needs no runs."""
    require(name in KNOWN, "name", name, f"need one of {', '.join(KNOWN)}")
    return (
        PAPERS
        if name == ALL
        else [experiment for key, experiment in EXPERIMENTS.items() if key == name]
    )
