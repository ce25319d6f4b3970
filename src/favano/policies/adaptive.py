"""Adaptive jobs: every arrival is a server step, after which the next job's length is set."""

from __future__ import annotations

from math import floor, inf, isfinite

from favano.errors import require
from favano.options import option
from favano.policies.buffered import Latency, SpentBy
from favano.policies.policy import (
    Action,
    Dispatch,
    InTurn,
    ReceivedUpdate,
    check_time,
    check_work,
)


class Adaptive(SpentBy, InTurn):
    """Every arrival is a server step, after which its client's next job is longer or shorter.

        gamma = ||x_t - x_start|| / ||Delta_i||
        K_i <- max(1, K_i + floor((target - gamma) gain)),   K_max at most

    All clients are at work. K_i stays as it is if a client has not moved, or not to a finite model.
    """

    sees = ("delta_norm", "server_distance")

    most_steps: int = option(20, "K never exceeds it")
    target: float = option(3.0, "the gamma at which jobs keep their length", symbol="gamma bar")
    gain: float = option(1.0, "steps a job changes by, for each unit of gamma", symbol="kappa")
    interaction_time: float = option(3.0, "time of an interaction", symbol="I")
    latency: Latency = option("client", "who spends the interaction time")

    def check(self) -> None:
        check_work(1, self.local_steps)
        rule = f"need at least local_steps ({self.longest_job})"
        require(self.most_steps >= self.longest_job, "most_local_steps", self.most_steps, rule)
        check_time("interaction_time", self.interaction_time)

    def start(self, seed: int) -> None:
        super().start(seed)
        self._steps: dict[int, int] = {}  # K_i, where it is not K

    def wakes(self) -> float:
        return inf

    def act(self, now: float) -> Action | None:
        if self._new:
            new, self._new = sorted(self._new), []
            return Action(dispatch=[self._dispatch(client) for client in new])
        if not self._here:
            return None
        update = self._here.pop(0)
        self._steps[update.client] = self._next_steps(update)
        present = update.client in self._present
        return Action([update], [self._dispatch(update.client)] if present else [])

    def _dispatch(self, client: int) -> Dispatch:
        return Dispatch(client, steps=self._steps.get(client) or self.steps_of(client))

    def _next_steps(self, update: ReceivedUpdate) -> int:
        length, distance = update.delta_norm, update.server_distance
        if not (0 < length < inf and isfinite(distance)):
            return update.steps
        steps = max(1, update.steps + floor((self.target - distance / length) * self.gain))
        return min(steps, self.most_steps)
