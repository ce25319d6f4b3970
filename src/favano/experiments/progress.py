"""Who watches a run."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Hears how far a run is; see `favano.cli.progress`."""

    def begin(self, name: str, steps: int) -> None:
        """A run of so many local steps begins."""

    def advance(self, seed: int, steps: int, time: float) -> None:
        """So many more local steps are done; simulated time has reached `time`."""

    def end(self) -> None:
        """The run is over."""


class Silence:
    """Progress that nobody watches."""

    def begin(self, name: str, steps: int) -> None:
        """Nothing."""

    def advance(self, seed: int, steps: int, time: float) -> None:
        """Nothing."""

    def end(self) -> None:
        """Nothing."""
