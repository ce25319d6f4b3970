"""The files of a table or figure: ledgers of the runs behind it, mean curves, complexities.

`runs.csv` holds the runs of the paper's reading, `readings.csv` those of other readings,
`tuning.csv` the search for learning rates, and `tuned.csv` the runs with the rates found.
`curves.csv` has the mean curves of a figure, `table.csv` the complexities of Table 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Final, Literal, NamedTuple, TypeAlias

from favano.records.folder import read_file
from favano.records.table import from_csv, to_csv

RUNS: Final = "runs"
READINGS: Final = "readings"
TUNING: Final = "tuning"
TUNED: Final = "tuned"
LEDGERS: Final = (RUNS, READINGS, TUNING, TUNED)
TO_THE_END: Final = ", to the end"  # of the reading: a pair of rates that was tried once more

Ending: TypeAlias = Literal["complete", "diverged", "missing"]


class Entry(NamedTuple):
    """One run: which cell it belongs to, how it ended, what it cost. None means unknown.

    Its numbers are those of the last model made at or before the horizon, for every method; in
    `tuning.csv`, those of the last model. A run that diverged met NaN or infinity; its numbers are
    those of the last evaluation before.

    >>> one = Entry("paper", "favano", "iid", 3, "complete", accuracy=0.95, server_steps=714)
    >>> entries_from_csv(entries_to_csv([one])) == [one]
    True
    """

    reading: str  # of the paper's text; `paper` is the one compared with its numbers
    algorithm: str
    column: str  # of the table: the setting
    seed: int
    status: Ending
    learning_rate: float | None = None
    server_learning_rate: float | None = None
    accuracy: float | None = None  # share of the test set, 0 to 1
    loss: float | None = None
    mean_model_accuracy: float | None = None
    variance: float | None = None
    time: float | None = None  # simulated, in units of time
    server_steps: int | None = None
    local_steps: int | None = None
    wall_seconds: float | None = None  # from the first to the last update; runs may overlap
    machine_seconds: float | None = None  # its share of the time of the whole machine
    energy_wh: float | None = None  # watt-hours
    co2_grams: float | None = None  # CO2 equivalents
    hardware: str = ""
    version: str = ""
    digest: str = ""  # of the specification; names the folder of the run


_Reached: TypeAlias = tuple[list[float], list[float]]  # by each seed, at first and in the end


class Rates(NamedTuple):
    """A client and a server learning rate, and the mean accuracy they reached."""

    client: float | None
    server: float | None
    accuracy: float


def rates_tried(entries: Sequence[Entry]) -> dict[tuple[str, str], list[Rates]]:
    """All pairs of rates tried, the best first, by method and column.

    Pairs that were tried to the end go before the others, with what they reached there. A run that
    diverged or is missing counts as accuracy 0.
    """
    tried: dict[tuple[str, str], dict[tuple[float | None, float | None], _Reached]] = {}
    for entry in entries:
        cell = tried.setdefault((entry.algorithm, entry.column), {})
        reached = entry.accuracy if entry.status == "complete" else None
        rates = entry.learning_rate, entry.server_learning_rate
        in_the_end = entry.reading.endswith(TO_THE_END)
        cell.setdefault(rates, ([], []))[in_the_end].append(reached or 0.0)
    return {key: _best_first(cell) for key, cell in tried.items()}


def _best_first(cell: Mapping[tuple[float | None, float | None], _Reached]) -> list[Rates]:
    ranked = sorted(cell.items(), key=lambda pair: (not pair[1][1], -fmean(_last(pair[1]))))
    return [Rates(*rates, fmean(_last(reached))) for rates, reached in ranked]


def _last(reached: _Reached) -> list[float]:
    first, in_the_end = reached
    return in_the_end or first


entries_to_csv = partial(to_csv, Entry)
entries_from_csv = partial(from_csv, Entry)


def read_ledger(path: Path) -> list[Entry]:
    """The entries of a ledger; none if there is no such file."""
    return read_file(path, entries_from_csv) if path.exists() else []


class CurvePoint(NamedTuple):
    """One evaluation: means over seeds, and one standard deviation below and above."""

    reading: str
    algorithm: str
    column: str
    seeds: int  # how many are averaged
    time: float  # simulated, in units of time
    server_steps: float
    local_steps: float
    accuracy: float  # share of the test set, 0 to 1
    accuracy_low: float
    accuracy_high: float
    loss: float
    loss_low: float
    loss_high: float
    variance: float
    variance_low: float
    variance_high: float


curves_to_csv = partial(to_csv, CurvePoint, digits=6)
curves_from_csv = partial(from_csv, CurvePoint)


class Complexity(NamedTuple):
    """How long a method takes to reach the target, up to numerical constants."""

    fleet: str
    method: str
    printed_steps: float  # server steps by the formula as printed
    corrected_steps: float
    step_time: float  # C, mean simulated time of a server step
    step_time_error: float  # its standard error
    printed_time: float  # simulated, in units of time
    corrected_time: float
    largest_delay: float  # in server steps
    average_delay: float


complexities_to_csv = partial(to_csv, Complexity, digits=6)
complexities_from_csv = partial(from_csv, Complexity)
