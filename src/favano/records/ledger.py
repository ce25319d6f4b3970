"""Ledgers: the runs behind a table or figure, one line each.

`runs.csv` has the paper's reading, `readings.csv` others, `tuning.csv` the search for learning
rates, and `tuned.csv` the runs with the rates that were found.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

from favano.records.table import from_csv, to_csv

RUNS: Final = "runs"
READINGS: Final = "readings"
TUNING: Final = "tuning"
TUNED: Final = "tuned"
LEDGERS: Final = (RUNS, READINGS, TUNING, TUNED)

Ending: TypeAlias = Literal["complete", "diverged", "missing"]


class Entry(NamedTuple):
    """One run: which cell it belongs to, how it ended, what it cost. None is not known.

    Its numbers are those of the last model made at or before the horizon, for every method alike;
    in `tuning.csv` those of the last model.

    A diverged run met NaN or infinity; its numbers are those of the last evaluation before.
    """

    reading: str  # of the paper, `paper` for the one its numbers are compared with
    algorithm: str
    column: str  # the setting: its column in the table
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
    wall_seconds: float | None = None  # from its first to its last update, beside other runs
    machine_seconds: float | None = None  # its share of the time that the whole machine worked
    energy_wh: float | None = None  # watt-hours
    co2_grams: float | None = None  # CO2 equivalents
    hardware: str = ""
    version: str = ""
    digest: str = ""  # of the specification, and the name of the file with the history


class Rates(NamedTuple):
    """A client and a server learning rate, and the mean accuracy they reached."""

    client: float | None
    server: float | None
    accuracy: float


def rates_tried(entries: Sequence[Entry]) -> dict[tuple[str, str], list[Rates]]:
    """Every pair of rates tried for an algorithm in a column, the best first.

    A run that diverged or is missing counts as accuracy 0.
    """
    found: dict[tuple[str, str], dict[tuple[float | None, float | None], list[float]]] = {}
    for entry in entries:
        cell = found.setdefault((entry.algorithm, entry.column), {})
        reached = entry.accuracy if entry.status == "complete" else None
        rates = entry.learning_rate, entry.server_learning_rate
        cell.setdefault(rates, []).append(reached or 0.0)
    return {
        key: sorted(
            (Rates(*rates, sum(reached) / len(reached)) for rates, reached in cell.items()),
            key=lambda rates: -rates.accuracy,
        )
        for key, cell in found.items()
    }


def entries_to_csv(entries: Iterable[Entry]) -> str:
    """Entries as a ledger; floats in the shortest form that reads back the same."""
    return to_csv(Entry, entries)


def entries_from_csv(text: str) -> list[Entry]:
    """The inverse of `entries_to_csv`.

    >>> one = Entry("paper", "favano", "iid", 3, "complete", accuracy=0.95, server_steps=714)
    >>> entries_from_csv(entries_to_csv([one])) == [one]
    True
    """
    return from_csv(Entry, text)
