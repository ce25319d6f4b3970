"""What is kept of every run behind a table or figure: one line each, in a CSV file."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from io import StringIO
from typing import Literal, NamedTuple, TypeAlias, cast, get_args

Ending: TypeAlias = Literal["complete", "diverged", "missing"]


class Entry(NamedTuple):
    """One run: which cell it belongs to, how it ended, what it cost. None is not known.

    Its numbers are those of the last model made at or before the horizon, for every method alike;
    in `tuning.csv` those of the last model.

    A diverged run met NaN or infinity; its numbers are those of the last evaluation before.
    """

    reading: str  # of the paper, `paper` for the one its numbers are compared with
    algorithm: str
    column: str
    seed: int
    status: Ending
    learning_rate: float | None = None
    server_learning_rate: float | None = None
    accuracy: float | None = None
    loss: float | None = None
    mean_model_accuracy: float | None = None
    variance: float | None = None
    time: float | None = None
    server_steps: int | None = None
    local_steps: int | None = None
    wall_seconds: float | None = None  # from its first to its last update, beside other runs
    machine_seconds: float | None = None  # its share of the time that the whole machine worked
    energy_wh: float | None = None
    co2_grams: float | None = None
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


_WORDS = {"reading", "algorithm", "column", "hardware", "version", "digest"}
_WHOLE = {"seed", "server_steps", "local_steps"}


def entries_to_csv(entries: Iterable[Entry]) -> str:
    """Entries as CSV with a header; floats in the shortest form that reads back the same."""
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(Entry._fields)
    writer.writerows(["" if cell is None else cell for cell in entry] for entry in entries)
    return text.getvalue()


def entries_from_csv(text: str) -> list[Entry]:
    """The inverse of `entries_to_csv`.

    >>> one = Entry("paper", "favano", "iid", 3, "complete", accuracy=0.95, server_steps=714)
    >>> entries_from_csv(entries_to_csv([one])) == [one]
    True
    """
    return [
        Entry._make(_cell(name, row[name]) for name in Entry._fields)
        for row in csv.DictReader(StringIO(text))
    ]


def _cell(name: str, text: str) -> str | float | None:
    if name in _WORDS:
        return text
    if name == "status":
        if text not in get_args(Ending):
            raise ValueError(f"status {text}: need one of {', '.join(get_args(Ending))}")
        return cast(Ending, text)
    if not text:
        return None
    return int(text) if name in _WHOLE else float(text)
