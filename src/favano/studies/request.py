"""A request to reproduce a table or figure, and the runs it needs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

from favano.errors import require
from favano.records import Entry, curves_to_csv, entries_to_csv, read_ledger, write_together
from favano.records.folder import CURVES
from favano.records.ledger import READINGS, RUNS, TUNED, TUNING
from favano.specification.spec import required
from favano.studies.archive import Archive
from favano.studies.curves import mean_curves
from favano.studies.experiment import Experiment, StudyRun, prepared, read_otherwise
from favano.studies.search import FIRST_SEED
from favano.studies.tuning import finalist_runs, tuned_runs, tuning_runs

ALL_READINGS = "all"


@dataclass(frozen=True)
class Request:
    """How a table or figure is to be reproduced.

    Args:
        seeds: number of seeds, counted from 0; None for the experiment's own number.
        scale: share of the horizon and of the data.
        device: where to train.
        readings: names of other readings to run as well, or `all`.
        tune: also tune the rates of the paper's methods, and run its tables with them.
        changes: keys that differ from the paper's in all runs.
    """

    seeds: int | None = None
    scale: float = 1.0
    device: str = "cpu"
    readings: tuple[str, ...] = ()
    tune: bool = False
    changes: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        rule = f"need 1..{FIRST_SEED}: seeds from {FIRST_SEED} on are for tuning"
        require(0 < self.scale <= 1, "scale", self.scale, "need a number > 0, 1 at most")
        require(self.seeds is None or 1 <= self.seeds <= FIRST_SEED, "seeds", self.seeds, rule)

    def parts(self, experiment: Experiment) -> dict[str, list[StudyRun]]:
        """The runs of an experiment, by the file that lists them."""
        seeds = self.seeds or experiment.seeds
        runs = prepared(
            experiment.runs(seeds), scale=self.scale, device=self.device, changes=self.changes
        )
        by_file = {RUNS: runs}
        if self.readings:
            every = self.readings == (ALL_READINGS,)
            names = tuple(experiment.readings) if every else self.readings
            by_file[READINGS] = read_otherwise(runs, experiment.readings, names)
        if experiment.search and (self.tune or experiment.ours):
            by_file[TUNING] = tuning_runs(runs, experiment.search)
        return by_file

    def shown(self, experiment: Experiment) -> Experiment:
        """The experiment as its tables and pictures show it.

        Runs of another length or on a share of the data are not compared with the paper's numbers,
        and a note says why.
        """
        if not experiment.paper:
            return experiment
        (ours, *_), (papers, *_) = self.parts(experiment)[RUNS], experiment.runs(1)
        time, asked = required(ours.spec.run.horizon), required(papers.spec.run.horizon)
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


def first_runs(experiment: Experiment, parts: Mapping[str, Sequence[StudyRun]]) -> list[StudyRun]:
    """The runs that can be made before rates are tuned."""
    names = (TUNING,) if experiment.ours else parts
    return [run for name in names for run in parts[name]]


def finalists(
    experiment: Experiment, parts: Mapping[str, Sequence[StudyRun]], archive: Archive
) -> list[StudyRun]:
    """The pairs of rates that are tried to the end, once all have been tried for a while."""
    rates = experiment.search
    if rates is None or len(rates.search.rungs) < 2 or TUNING not in parts:
        return []
    return finalist_runs(parts[RUNS], rates, [archive.entry(run) for run in parts[TUNING]])


def tuned_parts(
    experiment: Experiment, parts: Mapping[str, Sequence[StudyRun]], archive: Archive
) -> dict[str, list[StudyRun]]:
    """The parts with tuned rates, once all tuning runs are made: of ours, all but the search."""
    if TUNING not in parts:
        return {}
    tried = [archive.entry(run) for run in parts[TUNING]]
    if experiment.ours:
        return {name: tuned_runs(runs, tried) for name, runs in parts.items() if name != TUNING}
    return {TUNED: [replace(run, reading=TUNED) for run in tuned_runs(parts[RUNS], tried)]}


def write_parts(
    folder: Path, parts: Mapping[str, Sequence[StudyRun]], archive: Archive, *, curves: bool
) -> None:
    """Write the ledgers of an experiment and, for figures, its mean curves.

    Readings that an earlier call has made and this one did not ask for stay in their ledger.
    """
    texts = {}
    for name, runs in parts.items():
        by_reading: dict[str, list[Entry]] = {}
        if name == READINGS:
            for entry in read_ledger(folder / f"{READINGS}.csv"):
                by_reading.setdefault(entry.reading, []).append(entry)
        by_reading |= {run.reading: [] for run in runs}
        for run in runs:
            by_reading[run.reading].append(archive.entry(run))
        texts[f"{name}.csv"] = entries_to_csv(chain.from_iterable(by_reading.values()))
    if curves:
        texts[CURVES] = curves_to_csv(mean_curves(parts[RUNS], archive))
    write_together(folder, texts)
