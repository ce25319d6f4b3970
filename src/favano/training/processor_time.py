"""Processor time of alternative functions, measured in turns.

Processor time includes all threads of a library, and excludes other programs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import process_time
from typing import TypeAlias, TypeVar

_ROUNDS = 3
_SHORTEST = 0.03  # seconds of one sample

Way = TypeVar("Way")
Clock: TypeAlias = Callable[[], float]  # seconds; a parameter, so that tests need no real time


def processor_seconds(
    ways: Mapping[Way, Callable[[], object]], clock: Clock = process_time
) -> dict[Way, list[float]]:
    """Seconds per call of each function, in a few samples; the functions take turns."""
    first = {way: seconds(step, clock) for way, step in ways.items()}
    repeats = {way: int(max(1.0, _SHORTEST / max(first[way], 1e-6))) for way in ways}
    taken: dict[Way, list[float]] = {way: [] for way in ways}
    for _ in range(_ROUNDS):
        for way, step in ways.items():
            taken[way].append(seconds(step, clock, repeats[way]))
    return taken


def seconds(step: Callable[[], object], clock: Clock, repeats: int = 1) -> float:
    """Mean seconds per call."""
    began = clock()
    for _ in range(repeats):
        step()
    return (clock() - began) / repeats
