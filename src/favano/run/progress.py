"""Progress of runs, for a display."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Is told how far the runs are."""

    def begin(self, steps: int) -> None:
        """Runs of `steps` local steps in total begin."""

    def advance(self, label: str, steps: int, time: float) -> None:
        """All runs have made `steps` more local steps; one of them has reached time `time`."""

    def end(self) -> None:
        """The runs are over."""


class Silence:
    """Progress that is not shown."""

    def begin(self, steps: int) -> None: ...

    def advance(self, label: str, steps: int, time: float) -> None: ...

    def end(self) -> None: ...
