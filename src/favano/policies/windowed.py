"""Windows: ticks at which all client updates that are here are used."""

from __future__ import annotations

from favano.errors import require
from favano.options import option
from favano.policies.policy import Action, Dispatch, Policy, ReceivedUpdate, check_work


class Windowed(Policy):
    """Every `period` the server uses the updates that arrived; their clients restart then."""

    period: float = option(7.0, "time between ticks")

    def check(self) -> None:
        check_work(1, self.local_steps)
        require(self.period > 0, "period", self.period, "need a positive time")

    def start(self, seed: int) -> None:
        self._tick = 0
        self._present: set[int] = set()
        self._new: list[int] = []
        self._here: list[ReceivedUpdate] = []

    def join(self, client: int, now: float) -> None:
        self._present.add(client)
        if all(update.client != client for update in self._here):
            self._new.append(client)

    def leave(self, client: int, now: float) -> None:
        self._present.discard(client)
        self._new = [other for other in self._new if other != client]

    def receive(self, update: ReceivedUpdate, now: float) -> None:
        self._here.append(update)

    def lost(self, update: ReceivedUpdate, now: float) -> None:
        self._here.remove(update)
        if update.client in self._present:
            self._new.append(update.client)

    def wakes(self) -> float:
        return (self._tick + 1) * self.period

    def act(self, now: float) -> Action | None:
        if self._new:
            new, self._new = sorted(self._new), []
            return Action(dispatch=[Dispatch(client) for client in new])
        if now < self.wakes():
            return None
        time, self._tick = self.wakes(), self._tick + 1
        use, self._here = sorted(self._here), []
        again = [update.client for update in use if update.client in self._present]
        return Action(use, [Dispatch(client) for client in again], due=time)
