"""The clock of a server: seconds since its federation began."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Real or virtual time."""

    def now(self) -> float:
        """Seconds since the federation began."""

    def wait(self, until: float) -> None:
        """Wait until then, or until something may have happened."""


class WallClock:
    """Real time; it goes on from `begin`, and looks around every `pause` seconds."""

    def __init__(self, begin: float = 0.0, pause: float = 0.1) -> None:
        self._zero, self._pause = time.monotonic() - begin, pause

    def now(self) -> float:
        """Seconds since the federation began; the time that a server was down does not count."""
        return time.monotonic() - self._zero

    def wait(self, until: float) -> None:
        """Sleep for a moment."""
        time.sleep(max(0.0, min(until - self.now(), self._pause)))
