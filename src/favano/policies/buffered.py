"""Buffered updates: the server acts when enough client updates are here."""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Iterable, Sequence
from math import inf, log
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
    drawn_place,
    server_draw,
)
from favano.policies.selection import Selection, Selector
from favano.policies.selection_rules import Uniform
from favano.rng import Stream

HandOut = Literal["flush", "arrival", "idle", "uniform", "check-in"]
CheckIns = Literal["constant", "poisson"]
Latency = Literal["client", "server", "none"]


class SpentBy:
    """Who spends the interaction time, for policies with these two options."""

    interaction_time: float
    latency: Latency

    @property
    def server_pause(self) -> float:
        """What a server step takes."""
        return self.interaction_time if self.latency == "server" else 0.0

    @property
    def client_pause(self) -> float:
        """What a job takes before its first step."""
        return self.interaction_time if self.latency == "client" else 0.0


class Buffered(SpentBy, Policy):
    """The server updates when `buffer` clients have answered (FedBuff, AsyncSGD, FedAsync).

    `hand_out` says who gets the next job: the contributors once the buffer is flushed (`flush`),
    each contributor at its own arrival (`arrival`), an idle client by the rule of `selection`, by
    default a random one (`idle`), or any random client, which queues the job if it is busy
    (`uniform`). With `check-in` clients come by themselves, `check_in_rate` of them per unit of
    time: an idle client by the rule of `selection`, which is turned away if `concurrency` clients
    are at work. `latency` says who spends the interaction time, which simulations alone have: the
    server at a flush, or the client at each job.
    """

    buffer: int = option(10, "client updates per server step", symbol="Z")
    hand_out: HandOut = option("flush", "who gets the next job")
    selection: Selection = option(Uniform(), "idle: which of the idle clients")
    concurrency: int | None = option(None, "clients at work at the same time", otherwise="all")
    check_in_rate: float | None = option(None, "check-in: clients per unit of time")
    check_ins: CheckIns = option("constant", "check-in: at equal distances, or a Poisson process")
    interaction_time: float = option(3.0, "time of an interaction", symbol="I")
    latency: Latency = option("server", "who spends the interaction time")
    distinct: bool = option(False, "a client with an update in the buffer is not idle")
    max_staleness: int | None = option(None, "older updates are dropped", otherwise="any")
    flush_at_end: bool = option(False, "use the updates left in the buffer at the horizon")

    def check(self) -> None:
        require(self.buffer >= 1, "buffer", self.buffer, "need at least 1")
        check_work(1, self.local_steps)
        check_time("interaction_time", self.interaction_time)
        if self.concurrency is not None:
            require(self.concurrency >= 1, "concurrency", self.concurrency, "need at least 1")
        rule = "requires hand_out=idle, where the server chooses who works next"
        chosen = self.hand_out in ("idle", "check-in") or self.selection == Uniform()
        require(chosen, "selection", self.selection, rule)
        rate, comes = self.check_in_rate, self.hand_out == "check-in"
        require(
            comes == (rate is not None),
            "check_in_rate",
            rate,
            "hand_out=check-in requires it, and nothing else",
        )
        require(rate is None or 0 < rate < inf, "check_in_rate", rate, "need a positive number")
        rule = "requires hand_out=check-in"
        require(comes or self.check_ins == "constant", "check_ins", self.check_ins, rule)
        if self.max_staleness is not None:
            require(self.max_staleness >= 0, "max_staleness", self.max_staleness, "need at least 0")

    @property
    def in_turn(self) -> bool:
        """Whether a client update is always used, or dropped, before its client begins again."""
        alone = self.distinct or self.buffer == 1
        return self.hand_out == "flush" or (self.hand_out == "idle" and alone)

    @property
    def queues(self) -> bool:
        """Whether clients at work are given more jobs."""
        return self.hand_out == "uniform"

    @property
    def sees(self) -> Sequence[str]:
        """What its selection looks at."""
        return self.selection.sees

    def start(self, seed: int) -> None:
        self._seed, self._selector = seed, Selector(self.selection, seed)
        self._draws_alike = self.selection == Uniform()
        self._present: list[int] = []  # in order
        self._is_present: set[int] = set()
        self._new: list[int] = []
        self._idle: list[int] = []
        self._is_idle: set[int] = set()
        self._at_work: dict[int, int] = {}  # the jobs of each client, and of all
        self._jobs = 0
        self._here: deque[ReceivedUpdate] = deque()
        self._buffer: list[ReceivedUpdate] = []
        self._version, self._assigned = -1, 0
        self._came, self._next_check_in = 0, inf
        if self.hand_out == "check-in":
            self._next_check_in = self._gap()

    def join(self, client: int, now: float) -> None:
        insort(self._present, client)
        self._is_present.add(client)
        here = any(update.client == client for update in (*self._here, *self._buffer))
        if not (here and self.in_turn):  # else it is dispatched when its update is used
            self._new.append(client)

    def leave(self, client: int, now: float) -> None:
        self.away(client, now)
        self._new = [other for other in self._new if other != client]
        if client in self._is_idle:
            self._idle.remove(client)
            self._is_idle.discard(client)
        self._jobs -= self._at_work.pop(client, 0)

    def away(self, client: int, now: float) -> None:
        if client in self._is_present:
            self._present.remove(client)
            self._is_present.discard(client)

    def back(self, client: int, now: float) -> None:
        insort(self._present, client)
        self._is_present.add(client)

    def receive(self, update: ReceivedUpdate, now: float) -> None:
        self._selector.receive(update)
        if jobs := self._at_work.pop(update.client, 0):  # else it has left
            self._jobs -= 1
            if jobs > 1:
                self._at_work[update.client] = jobs - 1
        self._here.append(update)

    def lost(self, update: ReceivedUpdate, now: float) -> None:
        if update in self._buffer:
            self._buffer.remove(update)
        else:
            self._here.remove(update)
        self._new += [client for client in self._free([update.client]) if client not in self._idle]

    def wakes(self) -> float:
        return self._next_check_in

    def act(self, now: float) -> Action | None:
        if self._next_check_in < inf:
            self._add_idle(sorted(self._new))
            self._new = []
            if now >= self._next_check_in:
                return Action(dispatch=self._check_in())
        if self._new:
            return Action(dispatch=self._welcome())
        if self.hand_out == "idle" and self._idle and self._places(1):  # a client was lost
            return Action(dispatch=self._fill(len(self._idle)))
        while len(self._buffer) < self.buffer:
            if not self._here:
                return None
            if (action := self._take(self._here.popleft())) is not None:
                return action
        return self._flush()

    def end(self) -> Sequence[ReceivedUpdate]:
        return self._buffer if self.flush_at_end else ()

    def _welcome(self) -> list[Dispatch]:
        """New clients begin, as many as may be at work."""
        if self._draws_alike:  # all newcomers' draws are of one round
            self._selector.round = 0
        order = self._selector.select(self._new, self._places(len(self._new)))
        self._add_idle(sorted(set(self._new) - set(order)))
        self._new = []
        return self._dispatch(order)

    def _check_in(self) -> list[Dispatch]:
        """A client comes by itself; it gets a job unless too many are at work."""
        self._next_check_in += self._gap()
        return self._fill(min(1, len(self._idle)))

    def _gap(self) -> float:
        """The time until the next check-in."""
        assert self.check_in_rate is not None
        self._came += 1
        if self.check_ins == "constant":
            return 1 / self.check_in_rate
        return -log(server_draw(self._seed, Stream.DURATIONS, self._came)) / self.check_in_rate

    def _take(self, update: ReceivedUpdate) -> Action | None:
        """A client update goes into the buffer unless it is too old; None: that is all."""
        client, limit = update.client, self.max_staleness
        old = limit is not None and self._version - update.start_version > limit
        if not old:
            self._buffer.append(update)
        at_once = self.hand_out == "arrival" or (self.hand_out == "flush" and old)
        dispatch = self._dispatch(self._free([client])) if at_once else []
        if old or len(self._buffer) < self.buffer:
            kept = self.distinct and not old  # who has a client update in the buffer is not idle
            dispatch += self._next([] if kept else [client])
        return Action(None, dispatch, [update] if old else []) if dispatch or old else None

    def _flush(self) -> Action:
        """The buffer is full: a server step."""
        use, self._buffer = self._buffer, []
        self._version += 1
        clients = [update.client for update in use]
        if self.hand_out == "flush":
            return Action(use, self._dispatch(self._free(clients)))
        return Action(use, self._next(clients if self.distinct else clients[-1:]))

    def _next(self, idle: list[int]) -> list[Dispatch]:
        """Who gets the place of a client update, where places are not those of the clients."""
        if self.hand_out == "uniform" and self._present:
            return self._dispatch([self._present[self._draw(len(self._present))]])
        if self.hand_out not in ("idle", "check-in"):
            return []
        self._add_idle(self._free(idle))
        if self.hand_out == "check-in":
            return []
        return self._fill(len(self._idle))

    def _places(self, wanted: int) -> int:
        """How many of the wanted jobs may be handed out now."""
        if self.concurrency is None:
            return wanted
        taken = self._jobs
        if self.hand_out != "check-in":  # whose update is here keeps its place,
            taken += len(self._here)
        if self.hand_out == "flush":  # or until it is used
            taken += len(self._buffer)
        return max(0, min(wanted, self.concurrency - taken))

    def _free(self, clients: Iterable[int]) -> list[int]:
        """Those that are present and have nothing to do: a client may have left and come back."""
        present, at_work = self._is_present, self._at_work
        return [client for client in clients if client in present and client not in at_work]

    def _add_idle(self, clients: Iterable[int]) -> None:
        for client in clients:
            if client not in self._is_idle:
                self._is_idle.add(client)
                self._idle.append(client)

    def _fill(self, wanted: int) -> list[Dispatch]:
        """So many idle clients begin, as far as there are places."""
        size = self._places(wanted)
        if self._draws_alike:
            return self._dispatch([self._drawn_idle() for _ in range(size)])
        clients = self._selector.select(self._idle, size) if size else []
        self._is_idle.difference_update(clients)
        self._idle = [client for client in self._idle if client in self._is_idle]
        return self._dispatch(clients)

    def _drawn_idle(self) -> int:
        """A random idle client, who is idle no longer."""
        idle = self._idle
        place = self._draw(len(idle))
        idle[place], idle[-1] = idle[-1], idle[place]
        self._is_idle.discard(idle[-1])
        return idle.pop()

    def _dispatch(self, clients: list[int]) -> list[Dispatch]:
        clients = clients[: self._places(len(clients))]
        for client in clients:
            self._at_work[client] = self._at_work.get(client, 0) + 1
        self._jobs += len(clients)
        return [Dispatch(client) for client in clients]

    def _draw(self, size: int) -> int:
        self._assigned += 1
        return drawn_place(self._seed, self._assigned, size)
