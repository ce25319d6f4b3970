"""Windows: ticks at which all client updates that are here are used."""

from __future__ import annotations

from favano.errors import require
from favano.options import option
from favano.policies.policy import Action, Dispatch, InTurn, check_work


class Windowed(InTurn):
    """Every `period` the server uses the updates that arrived; their clients restart then."""

    period: float = option(7.0, "time between ticks")

    def check(self) -> None:
        check_work(1, self.local_steps)
        require(self.period > 0, "period", self.period, "need a positive time")

    def start(self, seed: int) -> None:
        super().start(seed)
        self._tick = 0

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
