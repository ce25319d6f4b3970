"""A request to reproduce a table or figure, and the runs it needs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from favano.errors import need
from favano.records import curves_to_csv, entries_to_csv, write_together
from favano.records.folder import CURVES
from favano.records.ledger import READINGS, RUNS, TUNING
from favano.specification.spec import given
from favano.studies.archive import Archive
from favano.studies.curves import mean_curves
from favano.studies.experiment import Experiment, Run, prepared, read_otherwise
from favano.studies.tuning import SEEDS, tuned_runs, tuning_runs

ALL_READINGS = "all"


@dataclass(frozen=True)
class Request:
    """How a table or figure is to be reproduced.

    Args:
        seeds: number of seeds, counted from 0; None for the experiment's own number.
        scale: share of the horizon and of the data.
        device: where to train.
        readings: names of other readings to run as well, or `all`.
        tune: also tune the rates of every compared method, and run the table with them.
        changes: keys that differ from the paper's in all runs.
    """

    seeds: int | None = None
    scale: float = 1.0
    device: str = "cpu"
    readings: tuple[str, ...] = ()
    tune: bool = False
    changes: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        rule = f"need 1..{SEEDS[0]}: seeds from {SEEDS[0]} on are for tuning"
        need(0 < self.scale <= 1, "scale", self.scale, "need a number > 0, 1 at most")
        need(self.seeds is None or 1 <= self.seeds <= SEEDS[0], "seeds", self.seeds, rule)

    def parts(self, experiment: Experiment) -> dict[str, list[Run]]:
        """The runs of an experiment, by the file that lists them."""
        seeds = self.seeds or experiment.seeds
        runs = prepared(
            experiment.runs(seeds), scale=self.scale, device=self.device, changes=self.changes
        )
        found = {RUNS: runs}
        if self.readings:
            every = self.readings == (ALL_READINGS,)
            names = tuple(experiment.readings) if every else self.readings
            found[READINGS] = read_otherwise(runs, experiment.readings, names)
        if self.tune and experiment.compares_methods:
            found[TUNING] = tuning_runs(runs)
        return found

    def shown(self, experiment: Experiment) -> Experiment:
        """The experiment as its tables and pictures show it.

        Runs of another length or on a share of the data are not compared with the paper's numbers,
        and a note says why.
        """
        if not experiment.paper:
            return experiment
        (ours, *_), (papers, *_) = self.parts(experiment)[RUNS], experiment.runs(1)
        time, asked = given(ours.spec.run.horizon), given(papers.spec.run.horizon)
        reasons = []
        if time != asked:
            reasons.append(f"these runs end at time {time:,g} and the paper's at {asked:,g}")
        if ours.spec.problem.data_fraction != papers.spec.problem.data_fraction:
            reasons.append(f"they train on {100 * ours.spec.problem.data_fraction:g} % of the data")
        if not reasons:
            return experiment
        note = f"Not compared with the paper's numbers: {', and '.join(reasons)}."
        return replace(experiment, paper={}, note=f"{note} {experiment.note}".rstrip())

    def folder(self, out: Path, name: str) -> Path:
        """The folder of an experiment; scaled or changed runs have folders of their own."""
        scaled = {} if self.scale == 1 else {"scale": f"{self.scale:g}"}
        other = (f"-{key}-{value}" for key, value in sorted({**scaled, **self.changes}.items()))
        return out / re.sub(r"[^\w.-]", "-", name + "".join(other))


def tuned_part(parts: Mapping[str, Sequence[Run]], archive: Archive) -> list[Run]:
    """The runs with tuned rates, once all tuning runs are made."""
    return tuned_runs(parts[RUNS], [archive.entry(run) for run in parts[TUNING]])


def write_parts(
    folder: Path, parts: Mapping[str, Sequence[Run]], archive: Archive, *, curves: bool
) -> None:
    """Write the ledgers of an experiment and, for figures, its mean curves."""
    texts = {
        f"{name}.csv": entries_to_csv(archive.entry(run) for run in runs)
        for name, runs in parts.items()
    }
    if curves:
        texts[CURVES] = curves_to_csv(mean_curves(parts[RUNS], archive))
    write_together(folder, texts)
