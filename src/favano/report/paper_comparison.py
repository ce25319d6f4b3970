"""Sheets from ledgers: our numbers beside the paper's, other readings, leads and tuned rates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from statistics import fmean, stdev
from typing import TypeAlias

from favano.records import Entry, on_edge, rates_tried
from favano.report.sheet import Sheet
from favano.report.wording import MINUS, fixed, signed, significant

Names: TypeAlias = Mapping[str, str]  # from keys in the files to words in print
Paper: TypeAlias = Mapping[tuple[str, str], tuple[float, float]]  # (line, column): mean, sd

MISSING = "missing"


@dataclass(frozen=True)
class Cell:
    """All seeds of one line in one column."""

    accuracy: Mapping[int, float]  # in per cent, by seed
    asked: int  # number of seeds
    diverged: int

    @property
    def words(self) -> str:
        """Mean and standard deviation, and what is missing.

        >>> Cell({0: 91.0, 1: 92.0}, asked=3, diverged=0).words
        '91.5 ± 0.7 (partial: 2 of 3 seeds)'
        """
        missing = [f"{self.diverged} of {self.asked} diverged"] if self.diverged else []
        if len(self.accuracy) + self.diverged < self.asked:
            missing.append(f"partial: {len(self.accuracy)} of {self.asked} seeds")
        note = f" ({', '.join(missing)})" if missing else ""
        if not self.accuracy:
            return f"diverged{note}" if self.diverged else MISSING
        values = list(self.accuracy.values())
        spread = f" ± {fixed(stdev(values), 1)}" if len(values) > 1 else ""
        return f"{fixed(fmean(values), 1)}{spread}{note}"


def cell(entries: Sequence[Entry], line: str, column: str) -> Cell:
    """The runs of one line, a method or a reading, in one column."""
    those = [
        entry
        for entry in entries
        if line in (entry.algorithm, entry.reading) and entry.column == column
    ]
    return Cell(
        accuracy={
            entry.seed: 100 * entry.accuracy
            for entry in those
            if entry.status == "complete"
            and entry.accuracy is not None
            and isfinite(entry.accuracy)
        },
        asked=len(those),
        diverged=sum(entry.status == "diverged" for entry in those),
    )


def beside_paper(
    title: str, entries: Sequence[Entry], lines: Names, columns: Names, paper: Paper
) -> Sheet:
    """The paper's number, ours, and the difference in standard deviations, for every cell."""
    compared = bool(paper)
    headings = ["method"]
    for heading in columns.values():
        headings += [f"{heading}: paper", "ours", "difference"] if compared else [heading]
    rows = []
    for line, name in lines.items():
        row = [name]
        for column in columns:
            ours = cell(entries, line, column)
            shown = f"**{ours.words}**" if ours.accuracy else ours.words
            row += _compared(ours, shown, paper.get((line, column))) if compared else [shown]
        rows.append(row)
    note = f"{measured(entries, lines)}, {_seeds(entries, 'standard deviation')}"
    note += "; differences in standard deviations of the paper." if compared else "."
    return Sheet(title, headings, rows, note)


def beside_paper_long(
    title: str, entries: Sequence[Entry], lines: Names, columns: Names, paper: Paper
) -> Sheet:
    """The same with one row per cell, for narrow screens."""
    wide = beside_paper(title, entries, lines, columns, paper)
    headings = ["setting", "method", "paper", "ours", "difference"]
    rows = [
        ["" if row else heading, name, *cells[3 * place : 3 * place + 3]]
        for place, heading in enumerate(columns.values())
        for row, (name, *cells) in enumerate(wide.rows)
    ]
    return Sheet(title, headings, rows, wide.note)


def measured(entries: Sequence[Entry], names: Names) -> str:
    """What the accuracies are: those of the last models made by some time.

    In ledgers of version 0.1 some accuracies are of later models; they are named.

    >>> runs = [Entry("paper", "favano", "iid", 0, "complete", time=5000.0)]
    >>> measured(runs, {})
    'Test accuracy in % of the last model made by time 5,000'
    >>> measured([*runs, Entry("paper", "fedavg", "iid", 0, "complete", time=5282.0)], {})
    'Test accuracy in % of the last model made by time 5,000 (of fedavg: by time 5,282)'
    """
    times = _times(entries)
    if not times:
        return "Test accuracy in %"
    late = []
    for algorithm in dict.fromkeys(entry.algorithm for entry in entries):
        last = max(_times(entries, algorithm), default=0.0)
        if last > min(times) * (1 + 1e-9):
            late.append(f"of {names.get(algorithm, algorithm)}: by time {significant(last)}")
    note = f" ({'; '.join(late)})" if late else ""
    return f"Test accuracy in % of the last model made by time {significant(min(times))}{note}"


def _times(entries: Sequence[Entry], algorithm: str | None = None) -> list[float]:
    return [
        entry.time
        for entry in entries
        if entry.status == "complete"
        and entry.time is not None
        and algorithm in (None, entry.algorithm)
    ]


def _compared(ours: Cell, shown: str, paper: tuple[float, float] | None) -> list[str]:
    if paper is None:
        return ["", shown, ""]
    mean, spread = paper
    difference = ""
    if ours.accuracy:
        difference = f"{signed((fmean(ours.accuracy.values()) - mean) / spread)} sd"
    return [f"{mean} ± {spread}", shown, difference]


def _seeds(entries: Sequence[Entry], spread: str) -> str:
    """How the numbers are made from the seeds."""
    count = len({entry.seed for entry in entries})
    return "one seed" if count == 1 else f"mean ± {spread} over {count} seeds"


def other_readings(entries: Sequence[Entry], texts: Names, names: Names, columns: Names) -> Sheet:
    """Our numbers for other readings of the paper, for which it has none."""
    rows = []
    for reading, text in texts.items():
        those = [entry for entry in entries if entry.reading == reading]
        algorithms = dict.fromkeys(entry.algorithm for entry in those)
        for algorithm in algorithms:
            own = [entry for entry in those if entry.algorithm == algorithm]
            name = f"{text}: {names.get(algorithm, algorithm)}" if len(algorithms) > 1 else text
            cells = (cell(own, reading, column) for column in columns)
            rows.append([name, *(value.words if value.asked else "" for value in cells)])
    note = f"{measured(entries, names)}, {_seeds(entries, 'sd')}."
    return Sheet("Other readings", ["reading", *columns.values()], rows, note)


def leads(title: str, entries: Sequence[Entry], names: Names, columns: Names) -> Sheet:
    """FAVANO's accuracy minus that of each other method, paired by seed."""
    rows = []
    rivals = {key: name for key, name in names.items() if key != "favano"}
    for rival, name in rivals.items():
        row = [f"FAVANO {MINUS} {name}"]
        for column in columns:
            ours = cell(entries, "favano", column).accuracy
            theirs = cell(entries, rival, column).accuracy
            gaps = [ours[seed] - theirs[seed] for seed in ours.keys() & theirs.keys()]
            ahead = sum(gap > 0 for gap in gaps)
            row.append(f"{signed(fmean(gaps))} ({ahead} of {len(gaps)})" if gaps else MISSING)
        rows.append(row)
    note = "Percentage points, mean over seeds; (seeds in which FAVANO is ahead)."
    return Sheet(title, ["difference", *columns.values()], rows, note)


def chosen_rates(tried: Sequence[Entry], names: Names, columns: Names) -> Sheet:
    """The rates that each method's search chose, marked if they lie on the edge of its grid."""
    rates = rates_tried(tried)
    unfinished = {(entry.algorithm, entry.column) for entry in tried if entry.status == "missing"}
    rows = []
    for method, name in names.items():
        row = [name]
        for column in columns:
            pairs = rates.get((method, column), [])
            if not pairs or (method, column) in unfinished:
                row.append("partial search" if pairs else MISSING)
                continue
            top = pairs[0]
            edge = any(on_edge([pair[rate] for pair in pairs], top[rate]) for rate in (0, 1))
            row.append(f"{top.client:.4g} / {top.server:.4g}{' (edge)' if edge else ''}")
        rows.append(row)
    seeds = sorted({entry.seed for entry in tried})
    count = max((len(pairs) for pairs in rates.values()), default=0)
    which = f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"
    note = (
        f"Client / server rate, the best of {count} pairs for every method by mean accuracy on "
        f"held-out training samples, {which}; (edge): of its grid."
    )
    return Sheet("Tuned rates", ["method", *columns.values()], rows, note)


def cost_sentence(entries: Sequence[Entry]) -> str:
    """What the runs cost in time, energy and carbon, as far as recorded."""
    made = [entry for entry in entries if entry.status != "missing"]
    known = [entry for entry in made if entry.machine_seconds is not None]
    if not known:
        return f"{len(made)} runs."
    seconds, energy, carbon = (
        sum(getattr(entry, name) or 0.0 for entry in known)
        for name in ("machine_seconds", "energy_wh", "co2_grams")
    )
    hardware = ", ".join(dict.fromkeys(entry.hardware for entry in known))
    return (
        f"{len(known)} runs took {significant(seconds)} s of {hardware}: an estimated "
        f"{significant(energy)} Wh and {significant(carbon)} g CO2e."
    )
