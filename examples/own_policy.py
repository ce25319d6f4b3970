"""A policy of one's own: whom the server asks, when, and what it waits for.

    favano plan --algorithm examples/own_policy.py:Turns --clients 20
    favano run --algorithm examples/own_policy.py:Turns --dataset digits --horizon 500
    favano run --algorithm fedavg --policy examples/own_policy.py:LeastRecent --horizon 500

The same class decides in a simulation and in a federation (`favano serve`): it is told what happens
and says what to do, and cannot tell which clock calls it.
"""

from __future__ import annotations

import numpy as np

from favano import (
    Action,
    ClientUpdates,
    Dispatch,
    Method,
    ModelState,
    Policy,
    ReceivedUpdate,
    option,
)


class LeastRecent(Policy):
    """Every `period`, the s clients that were asked longest ago; what has come by then is used."""

    selected: int = option(5, "clients asked per tick", symbol="s")
    period: float = option(7.0, "time between ticks")

    def start(self, seed: int) -> None:
        self.tick = 1
        self.waiting: list[int] = []  # clients without a job, those asked longest ago first
        self.here: list[ReceivedUpdate] = []

    def join(self, client: int, now: float) -> None:
        self.waiting.append(client)

    def leave(self, client: int, now: float) -> None:
        self.waiting = [other for other in self.waiting if other != client]

    def receive(self, update: ReceivedUpdate, now: float) -> None:
        self.here.append(update)
        self.waiting.append(update.client)

    def wakes(self) -> float:
        return self.tick * self.period

    def act(self, now: float) -> Action | None:
        if now < self.wakes():
            return None
        self.tick += 1
        use, self.here = self.here, []
        asked, self.waiting = self.waiting[: self.selected], self.waiting[self.selected :]
        return Action(use=use or None, dispatch=[Dispatch(client) for client in asked])


class Turns(Method[ModelState]):
    """The mean of what the clients have learnt, who take turns."""

    linear = True

    period: float = option(7.0, "time between ticks")

    def policy(self) -> LeastRecent:
        context = self.context
        return LeastRecent(
            selected=context.selected, period=self.period, local_steps=context.local_steps
        )

    def aggregate(self, state: ModelState, updates: ClientUpdates) -> ModelState:
        clients = len(updates.client)
        return ModelState(state.model + updates.weighted_delta(np.full(clients, 1 / clients)))
