"""A policy of one's own that looks at values: it asks, drops and cancels by what clients sent."""

from __future__ import annotations

import numpy as np

from favano import Action, ClientUpdates, Dispatch, Method, ModelState, Policy, option
from favano.policies import ReceivedUpdate


class HighestLoss(Policy):
    """Every `period`, the s idle clients of the highest loss; of three updates the flattest goes.

    Who has been at work for `patience` ticks is cancelled. Some jobs end with the next tick.
    """

    sees = ("loss", "delta_norm")

    selected: int = option(3, "clients asked per tick", symbol="s")
    period: float = option(7.0, "time between ticks")
    patience: int = option(4, "ticks")

    def start(self, seed: int) -> None:
        self.tick = 0
        self.loss: dict[int, float] = {}
        self.idle: set[int] = set()
        self.since: dict[int, int] = {}  # tick in which each client at work was asked
        self.here: list[ReceivedUpdate] = []

    def join(self, client: int, now: float) -> None:
        self.idle.add(client)

    def leave(self, client: int, now: float) -> None:
        self.idle.discard(client)

    def receive(self, update: ReceivedUpdate, now: float) -> None:
        self.here.append(update)
        self.loss[update.client] = update.loss
        del self.since[update.client]
        self.idle.add(update.client)

    def wakes(self) -> float:
        return self.tick * self.period

    def act(self, now: float) -> Action | None:
        if now < self.wakes():
            return None
        use, self.here = sorted(self.here, key=lambda update: -update.delta_norm), []
        drop = use[3:]
        cancel = [
            client for client, since in self.since.items() if self.tick - since >= self.patience
        ]
        for client in cancel:
            del self.since[client]
        order = sorted(self.idle, key=lambda client: (-self.loss.get(client, np.inf), client))
        chosen = order[: self.selected]
        self.idle.difference_update(chosen)
        self.idle.update(cancel)
        self.since |= dict.fromkeys(chosen, self.tick)
        self.tick += 1
        until = [np.inf, np.inf, self.wakes()]
        dispatch = [Dispatch(client, until[client % 3]) for client in chosen]
        return Action(use[:3] or None, dispatch, drop, cancel)


class ByLoss(Method[ModelState]):
    """The mean of what the clients with the highest losses have learnt."""

    linear = True

    def policy(self) -> HighestLoss:
        return HighestLoss(selected=self.context.selected, local_steps=self.context.local_steps)

    def aggregate(self, state: ModelState, updates: ClientUpdates) -> ModelState:
        clients = len(updates.client)
        return ModelState(state.model + updates.weighted_delta(np.full(clients, 1 / clients)))
