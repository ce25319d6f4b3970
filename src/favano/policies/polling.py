"""Polling: every period the server asks s clients for what they have."""

from __future__ import annotations

from typing import Literal

import numpy as np

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
from favano.types import Floats, Ints

Asked = Literal["ahead", "now"]
Interruption = Literal["redraw", "resume", "keep"]
StepCount = Literal["durations", "literal", "literal-zero"]

_TICKS = 256  # whose subsets are drawn at once


class Polling(Policy):
    """Every `period` the server asks s clients for their progress (FAVANO, QuAFL).

    A client works from contact to contact, for K steps at most. Since the selection of a tick does
    not depend on what clients do, the next tick that selects a client is known when it gets the
    model: the job has an appointment. When clients join or leave, ticks to come are drawn anew;
    appointments that clients know of stand. Who is late is waited for until `grace` has passed,
    and is then due at the next tick.

    With `asked="now"` there are no appointments: a tick draws s of the clients that are there, and
    asks them. It waits for their updates until the next tick at most; later ones are used then.

    The options from `interruption` on are other readings of the paper's clock (page "Readings"),
    which simulations alone have: `schedule/polling.py` knows them.
    """

    selected: int = option(20, "clients asked per tick", symbol="s")
    selection: Selection = option(Uniform(), "which clients a tick asks")
    asked: Asked | None = option(
        None,
        "clients are drawn ahead and told when to send, or drawn at the tick",
        otherwise="now where clients are away",
    )
    waiting_time: float = option(4.0, "time between two interactions", symbol="V")
    interaction_time: float = option(3.0, "time of an interaction", symbol="I")
    interruption: Interruption = option("redraw", "the step under way at a contact")
    starts_at_zero: bool = option(False, "first contact at time 0, before any step")
    idle_in_interaction: bool = option(False, "clients do not compute during interactions")
    strict_ties: bool = option(False, "a step that ends exactly at the contact is lost")
    overrun: bool = option(False, "the last contact is at or past the horizon")
    step_count: StepCount = option("durations", "literal: E itself is geometric")
    grace: float = option(0.0, "how long a tick waits for updates that are due")

    def check(self) -> None:
        check_work(self.selected, self.local_steps)
        check_time("waiting_time", self.waiting_time)
        check_time("interaction_time", self.interaction_time)
        require(self.period > 0, "waiting_time", self.waiting_time, "need a positive server step")
        rule = f"looks at {' and '.join(self.selection.sees)}, but polls tell clients beforehand "
        rule += "when they are asked next; need rounds, or FedBuff's idle clients"
        require(not self.selection.sees, "selection", self.selection, rule)
        rule = f"need 0 <= grace < {self.period:g}, the time between two ticks"
        require(0 <= self.grace < self.period, "grace", self.grace, rule)

    @property
    def period(self) -> float:
        """Length I + V of a server step."""
        return self.waiting_time + self.interaction_time

    def window(self, gap: Floats | Ints) -> Floats:
        """The time that a client has to work between contacts that are `gap` server steps apart."""
        idle = self.interaction_time if self.idle_in_interaction else 0.0
        return np.maximum(gap * self.period - idle, 0.0)

    @property
    def asks(self) -> bool:
        """Whether clients are drawn at the tick, and asked."""
        return self.asked == "now"

    def start(self, seed: int) -> None:
        # As of the first tick in `_draws`, and as of the one after the last.
        self._past, self._ahead = Selector(self.selection, seed), Selector(self.selection, seed)
        self._tick = 0  # the next one
        self._present: set[int] = set()
        self._new: list[int] = []  # clients without a model
        self._due: dict[int, int] = {}  # tick of each client at work
        self._here: dict[int, ReceivedUpdate] = {}  # that wait for their tick, by client
        self._drawn_from, self._draws = 0, list[set[int]]()
        self._awaited: set[int] = set()  # clients that this tick has asked, and not heard of
        self._overdue: set[int] = set()  # the same of earlier ticks
        self._open = False  # whether a tick has asked, and has not made its server step yet

    def join(self, client: int, now: float) -> None:
        self._forget_draws()
        self._present.add(client)
        if client not in self._here:  # else it is dispatched when its update is used
            self._new.append(client)

    def leave(self, client: int, now: float) -> None:
        self._forget_draws()
        self._present.discard(client)
        if client not in self._here:
            self._due.pop(client, None)
        self._answered(client)
        self._new = [other for other in self._new if other != client]

    def away(self, client: int, now: float) -> None:
        self._forget_draws()
        self._present.discard(client)

    def back(self, client: int, now: float) -> None:
        self._forget_draws()
        self._present.add(client)

    def receive(self, update: ReceivedUpdate, now: float) -> None:
        self._here[update.client] = update
        self._answered(update.client)

    def lost(self, update: ReceivedUpdate, now: float) -> None:
        del self._here[update.client]
        self._due.pop(update.client, None)
        if update.client in self._present:
            self._new.append(update.client)

    def wakes(self) -> float:
        time = self._time(self._tick)
        return time + self.grace if not self.asks and self._late() else time

    def act(self, now: float) -> Action | None:
        if self._new:
            new, self._new = sorted(self._new), []
            return Action(dispatch=[self._dispatch(client, now) for client in new])
        time = self._time(self._tick)
        if self.asks:
            return self._asked_now(now, time)
        if now < time or (self._late() and now < time + self.grace):
            return None
        due = sorted(client for client, tick in self._due.items() if tick <= self._tick)
        use = [self._here.pop(client) for client in due if client in self._here]
        self._tick += 1
        for update in use:
            del self._due[update.client]
        again = [update.client for update in use if update.client in self._present]
        return Action(use or None, [self._dispatch(client, now) for client in again], due=time)

    def _asked_now(self, now: float, time: float) -> Action | None:
        """Ask at a tick, and make the server step once all have answered, or at the next tick."""
        if self._open and (now >= time or not self._awaited):
            use, self._open = [self._here[client] for client in sorted(self._here)], False
            self._here, self._overdue, self._awaited = {}, self._overdue | self._awaited, set()
            again = [update.client for update in use if update.client in self._present]
            dispatch = [self._dispatch(client, now) for client in again]
            if use:
                return Action(use, dispatch, due=self._time(self._tick - 1))
        if now < time:
            return None
        self._past.round, self._tick, self._open = self._tick, self._tick + 1, True
        candidates = self._present - self._overdue - self._here.keys()
        asked = self._past.select(candidates, min(self.selected, len(candidates)))
        self._awaited.update(asked)
        return Action(ask=asked)

    def _answered(self, client: int) -> None:
        self._awaited.discard(client)
        self._overdue.discard(client)

    def _time(self, tick: int) -> float:
        return (tick + 1) * self.period

    def _late(self) -> bool:
        """Whether client updates are not here that are due at the next tick."""
        due = (client for client, tick in self._due.items() if tick <= self._tick)
        return any(client not in self._here for client in due)

    def _dispatch(self, client: int, now: float) -> Dispatch:
        """A job until the next tick that draws the client; a server that stood still is late."""
        if self.asks:
            return Dispatch(client, waits=True)
        tick = self._tick
        while self._time(tick) <= now:
            tick += 1
        while client not in self._subset(tick):
            tick += 1
        self._due[client] = tick
        return Dispatch(client, self._time(tick))

    def _subset(self, tick: int) -> set[int]:
        if not self._drawn_from <= tick < self._drawn_from + len(self._draws):
            if not self._draws:
                self._drawn_from = self._past.round = self._tick
                self._ahead = self._past.copy()
            self._forget_past()
            size = min(self.selected, len(self._present))
            drawn = self._ahead.select_ahead(self._present, size, _TICKS)
            self._draws += map(set, drawn.tolist())
        return self._draws[tick - self._drawn_from]

    def _forget_past(self) -> None:
        """Of ticks that are past, only what they say about ticks to come is kept."""
        passed = self._tick - self._drawn_from
        for drawn in self._draws[:passed]:
            self._past.note(sorted(drawn))
        del self._draws[:passed]
        self._drawn_from = self._tick

    def _forget_draws(self) -> None:
        """Ticks to come are drawn anew, since there are other clients."""
        if self._draws:
            self._forget_past()
            self._draws = []
