"""Who watches a run."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Hears how far the runs are."""

    def begin(self, steps: int) -> None:
        """Runs of so many local steps in all begin."""

    def advance(self, label: str, steps: int, time: float) -> None:
        """So many more local steps are done, in a run that has reached simulated time `time`."""

    def end(self) -> None:
        """The runs are over."""


class Silence:
    """Progress that nobody watches."""

    def begin(self, steps: int) -> None:
        """Nothing."""

    def advance(self, label: str, steps: int, time: float) -> None:
        """Nothing."""

    def end(self) -> None:
        """Nothing."""
