"""Adaptive jobs: every arrival is a server step, after which the next job's length is set."""

from __future__ import annotations

from math import inf

from favano.errors import require
from favano.options import option
from favano.policies.buffered import Latency
from favano.policies.policy import Action, Dispatch, Policy, ReceivedUpdate, check_time, check_work


class Adaptive(Policy):
    """Every arrival is an update, after which the server sets the length of the next job.

    All clients are at work; each goes on at once from the new model (AsyncFedED). What the method
    says of the steps is `schedule/adaptive.py`'s business; here all jobs keep their first length.
    """

    grows = True

    most_steps: int = option(20, "K never exceeds it")
    interaction_time: float = option(3.0, "time of an interaction", symbol="I")
    latency: Latency = option("client", "who spends the interaction time")

    def check(self) -> None:
        check_work(1, self.local_steps)
        rule = f"need at least local_steps ({self.longest_job})"
        require(self.most_steps >= self.longest_job, "most_local_steps", self.most_steps, rule)
        check_time("interaction_time", self.interaction_time)

    @property
    def server_pause(self) -> float:
        """What a server step takes."""
        return self.interaction_time if self.latency == "server" else 0.0

    @property
    def client_pause(self) -> float:
        """What a job takes before its first step."""
        return self.interaction_time if self.latency == "client" else 0.0

    def start(self, seed: int) -> None:
        self._present: set[int] = set()
        self._new: list[int] = []
        self._here: list[ReceivedUpdate] = []

    def join(self, client: int, now: float) -> None:
        self._present.add(client)
        self._new.append(client)

    def leave(self, client: int, now: float) -> None:
        self._present.discard(client)
        self._new = [other for other in self._new if other != client]

    def receive(self, update: ReceivedUpdate, now: float) -> None:
        self._here.append(update)

    def wakes(self) -> float:
        return inf

    def act(self, now: float) -> Action | None:
        if self._new:
            new, self._new = sorted(self._new), []
            return Action(dispatch=[Dispatch(client) for client in new])
        if not self._here:
            return None
        update = self._here.pop(0)
        return Action([update], [Dispatch(update.client)] if update.client in self._present else [])
