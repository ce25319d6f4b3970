"""The time of one job: how long it took, and whether there is time for one more step."""

from __future__ import annotations

from collections.abc import Callable


class TrainingStopwatch:
    """Counts steps until a time is reached.

    A step is begun only if it is expected to end in time: it will take as long as those of this
    job took on average, or as those of the job before. So a client has made as many steps at its
    appointment as if it had been interrupted there, and does not reply late.
    """

    def __init__(
        self,
        until: float | None,  # None: no end
        expected: float,  # seconds of a step
        pace: float,  # seconds that a step takes at least
        clock: Callable[[], float],
        sleep: Callable[[float], None],
        *,
        least: int = 1,  # steps that are made if the first one is begun
    ) -> None:
        self._until, self._expected, self._pace = until, max(expected, pace), pace
        self._clock, self._sleep, self._least = clock, sleep, least
        self._began = clock()
        self.steps = 0  # that were begun

    @property
    def step_seconds(self) -> float:
        """Mean duration of a step; that of the job before if there was none."""
        return (self._clock() - self._began) / self.steps if self.steps else self._expected

    def more(self) -> bool:
        """Whether to make one more step; the one before has ended."""
        self._keep_pace()
        now = self._clock()
        late = self._until is not None and now + self.step_seconds > self._until
        if late and not 0 < self.steps < self._least:
            return False
        self.steps += 1
        return True

    def stop(self) -> float:
        """Seconds that the job took; its last step has ended."""
        self._keep_pace()
        return self._clock() - self._began

    def _keep_pace(self) -> None:
        early = self._began + self.steps * self._pace - self._clock()
        if early > 0:
            self._sleep(early)
