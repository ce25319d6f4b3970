"""The files of a table or figure: ledgers of the runs behind it, mean curves, complexities.

`runs.csv` holds the runs of the paper's reading, `readings.csv` those of other readings,
`tuning.csv` the search for learning rates, and `tuned.csv` the runs with the rates found.
`curves.csv` has the mean curves of a figure, `table.csv` the complexities of Table 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Final, Literal, NamedTuple, TypeAlias, TypeVar

from favano.records.folder import read_file
from favano.records.metric import Best
from favano.records.table import from_csv, to_csv

RUNS: Final = "runs"
READINGS: Final = "readings"
TUNING: Final = "tuning"
TUNED: Final = "tuned"
LEDGERS: Final = (RUNS, READINGS, TUNING, TUNED)
TO_THE_END: Final = ", to the end"  # of the reading: a pair of rates that was tried once more

Ending: TypeAlias = Literal["complete", "diverged", "missing"]
_Pair: TypeAlias = tuple[float | None, float | None]  # client and server rate


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


K = TypeVar("K")


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
    tried: dict[tuple[str, str], list[tuple[_Pair, int, float]]] = {}
    for entry in entries:
        reached = (entry.accuracy if entry.status == "complete" else None) or 0.0
        rates = entry.learning_rate, entry.server_learning_rate
        rung = int(entry.reading.endswith(TO_THE_END))
        tried.setdefault((entry.algorithm, entry.column), []).append((rates, rung, reached))
    return {
        cell: [Rates(*rates, mean) for rates, mean in best_first(values)]
        for cell, values in tried.items()
    }


def best_first(tried: Iterable[tuple[K, int, float]], best: Best = "high") -> list[tuple[K, float]]:
    """What was tried, the best first, with the mean over seeds of its last rung.

    Each is given with a rung and the value that a seed reached there. What got further goes before
    the others, whatever it reached.

    >>> best_first([("a", 0, 0.9), ("b", 0, 0.8), ("c", 0, 0.7), ("b", 1, 0.5), ("c", 1, 0.6)])
    [('c', 0.6), ('b', 0.5), ('a', 0.9)]
    """
    reached: dict[K, dict[int, list[float]]] = {}
    for key, rung, value in tried:
        reached.setdefault(key, {}).setdefault(rung, []).append(value)
    last = [(key, max(rungs), fmean(rungs[max(rungs)])) for key, rungs in reached.items()]
    sign = -1 if best == "high" else 1
    last.sort(key=lambda item: (-item[1], sign * item[2]))
    return [(key, mean) for key, _, mean in last]


def on_edge(values: Iterable[float | None], chosen: float | None) -> bool:
    """Whether a value is the smallest or largest of several: a better one may lie beyond.

    >>> on_edge([0.1, 0.2, 0.3], 0.3), on_edge([0.1, 0.2, 0.3], 0.2), on_edge([0.1], 0.1)
    (True, False, False)
    """
    known = sorted({value for value in values if value is not None})
    return len(known) > 1 and chosen in (known[0], known[-1])


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
