"""`table.csv` of Table 1: complexities of the methods, one line per fleet and method."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from favano.records.table import from_csv, to_csv


class Complexity(NamedTuple):
    """How long a method takes to the target, up to numerical constants."""

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


def complexities_to_csv(lines: Iterable[Complexity]) -> str:
    """Lines as `table.csv`, to six significant digits."""
    return to_csv(Complexity, lines, digits=6)


def complexities_from_csv(text: str) -> list[Complexity]:
    """The lines of a `table.csv`."""
    return from_csv(Complexity, text)
