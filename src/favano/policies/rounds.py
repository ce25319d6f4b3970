"""Rounds: some clients begin from the new model, and the server waits for them."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Literal

from favano.errors import require
from favano.options import option
from favano.policies.policy import (
    Action,
    Dispatch,
    Policy,
    ReceivedUpdate,
    check_time,
    check_work,
)
from favano.policies.selection import Selection, Selector
from favano.policies.selection_rules import Uniform

RoundTime = Literal["sum", "one-draw", "mean"]
AtDeadline = Literal["drop", "take"]


class Rounds(Policy):
    """Rounds: s clients start from the new model, and the server waits for `wait_for` of them.

    FedAvg waits for all. `selected = n` and `wait_for = Z` is FedBuff in mode `reset`. `round_time`
    and `drop_last` are readings of the simulated clock: `schedule/rounds.py` knows them.
    """

    selected: int = option(20, "clients per round", symbol="s")
    selection: Selection = option(Uniform(), "which clients a round asks")
    interaction_time: float = option(3.0, "time of an interaction", symbol="I")
    wait_for: int | None = option(None, "client updates that a round waits for", otherwise="all")
    deadline: float | None = option(None, "longest wait for clients", otherwise="none")
    at_deadline: AtDeadline = option("drop", "drop late clients, or take the steps made by then")
    round_time: RoundTime = option("sum", "how the length of a round is drawn")
    drop_last: bool = option(False, "leave out a round that ends past the horizon")

    def check(self) -> None:
        check_work(self.selected, self.local_steps)
        check_time("interaction_time", self.interaction_time)
        if self.wait_for is not None:
            rule = f"need 1..selected ({self.selected})"
            require(1 <= self.wait_for <= self.selected, "buffer", self.wait_for, rule)
        for name in ("round_time", "drop_last") if self.selection.sees else ():
            rule = f"requires a selection that can be planned, not {self.selection.name}"
            require(name not in self.given, name, getattr(self, name), rule)
        if self.deadline is not None:
            require(self.deadline > 0, "deadline", self.deadline, "need a positive time")

    @property
    def sees(self) -> Sequence[str]:
        """What its selection looks at."""
        return self.selection.sees

    @property
    def server_pause(self) -> float:
        """A server step takes an interaction."""
        return self.interaction_time

    def start(self, seed: int) -> None:
        self._selector = Selector(self.selection, seed)
        self._present: set[int] = set()
        self._round, self._version = -1, -1
        self._end = inf  # the deadline of this round
        self._awaited: set[int] = set()
        self._wanted = 0
        self._here: list[ReceivedUpdate] = []

    def join(self, client: int, now: float) -> None:
        self._present.add(client)

    def leave(self, client: int, now: float) -> None:
        self._present.discard(client)
        self._awaited.discard(client)

    def away(self, client: int, now: float) -> None:
        self._present.discard(client)

    def back(self, client: int, now: float) -> None:
        self._present.add(client)

    def receive(self, update: ReceivedUpdate, now: float) -> None:
        self._selector.receive(update)
        if update.start_version == self._version:
            self._awaited.discard(update.client)
        self._here.append(update)

    def lost(self, update: ReceivedUpdate, now: float) -> None:
        self._here.remove(update)  # its client may be asked in the next round

    def wakes(self) -> float:
        return self._end if self._awaited else inf

    def act(self, now: float) -> Action | None:
        if self._round < 0:
            return Action(dispatch=self._new_round(now)) if self._present else None
        if not (self._awaited or self._here or self._present):  # nobody is there
            return None
        mine = [update for update in self._here if update.start_version == self._version]
        if now < self.wakes() and self._awaited and len(mine) < self._wanted:
            return None
        use = sorted(update for update in mine[: self._wanted] if self._is_enough(update))
        drop = [update for update in self._here if update not in use]
        self._here, left = [], sorted(self._awaited)
        self._version += bool(use)
        begin = now + self.server_pause if use else now
        return Action(use or None, self._new_round(begin), drop, left)

    def _is_enough(self, update: ReceivedUpdate) -> bool:
        """Whether an update has the steps that it needs at a deadline."""
        least = self.steps_of(update.client) if self.at_deadline == "drop" else 1
        return self.deadline is None or update.steps >= least

    def _new_round(self, begin: float) -> list[Dispatch]:
        self._round += 1
        size = min(self.selected, len(self._present))
        chosen = self._selector.select(self._present, size)
        self._awaited, self._wanted = set(chosen), min(self.wait_for or size, size)
        self._end = inf if self.deadline is None else begin + self.deadline
        return [Dispatch(client, self._end) for client in chosen]
