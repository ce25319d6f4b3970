"""`table.csv` of Table 1: complexities of the methods, one line per fleet and method."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from favano.records.table import from_csv, to_csv


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
