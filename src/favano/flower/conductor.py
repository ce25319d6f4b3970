"""Contact policies in real time: whom the server hands a model, and which answers it uses when.

The other reader of a policy is the planner (`schedule`), in virtual time. A conductor knows neither
models nor messages nor a clock: it is told what happens and when, and says what to do. With the
same answers at the same times both readers make the same schedule.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from math import inf
from typing import NamedTuple, Protocol

import numpy as np

from favano.errors import BadInput, require
from favano.rng import Stream, bits, uniform
from favano.schedule import Buffered, Policy, Polling, Rounds, Windowed
from favano.types import Ints

_SERVER = 2**40  # the server's own stream among those of the clients
_TICKS = 256  # whose subsets are drawn at once
_SIMULATED = (
    "interruption", "starts_at_zero", "idle_in_interaction", "strict_ties", "overrun", "step_count",
)  # fmt: skip


class Dispatch(NamedTuple):
    """A client is handed the newest model."""

    client: int
    until: float = inf  # it answers then, or after K steps


class Turn(NamedTuple):
    """What the server does now: it drops answers and jobs, makes an update, and calls clients."""

    use: Sequence[ReceivedUpdate] | None = None  # None: no update
    calls: Sequence[Dispatch] = ()
    dropped: Sequence[ReceivedUpdate] = ()  # client updates that are not used
    given_up: Sequence[int] = ()  # clients whose updates are no longer waited for
    due: float | None = None  # when it was to be made, if that was planned


class ReceivedUpdate(NamedTuple):
    """The client update of a client to a call."""

    client: int
    job: int
    start_version: int  # the version that it began from


class Conductor(Protocol):
    """A policy in real time. Times are seconds since the server began."""

    def join(self, client: int) -> None:
        """A client can be called from now on."""

    def leave(self, client: int) -> None:
        """A client is lost, with whatever it was doing; updates that are here are still used."""

    def answered(self, answer: ReceivedUpdate) -> None:
        """A client update is here."""

    def lost(self, answer: ReceivedUpdate) -> None:
        """A client update that was here is not; its client is called again unless it is at work."""

    def turn(self, now: float) -> Turn | None:
        """What to do now; None: nothing. To be asked until it is None."""

    @property
    def wakes(self) -> float:
        """When to ask again at the latest."""


def conductor(policy: Policy, seed: int, *, grace: float = 0.0) -> Conductor:
    """The conductor of a policy; `grace` is how long it waits at a tick for what is due."""
    match policy:
        case Polling():
            return _Appointments(policy, seed, grace)
        case Buffered():
            return _Arrivals(policy, seed)
        case Rounds():
            return _Rounds(policy, seed)
        case Windowed():
            return _Windows(policy)
    rule = "has a schedule that depends on the models: it can only be simulated"
    raise BadInput("policy", type(policy).__name__, rule)


def _drawn(seed: int, clients: Iterable[int], size: int, rounds: Ints) -> list[list[int]]:
    """Uniform subsets of these clients, one per round, by the keys that the planner uses."""
    present = np.array(sorted(clients), dtype=np.int64)
    keys = bits(seed, Stream.SELECTION, present, rounds[:, None])
    chosen = np.sort(np.argsort(keys, axis=1, kind="stable")[:, :size], axis=1)
    drawn: list[list[int]] = present[chosen].tolist()
    return drawn


class _Appointments:
    """Polls: a client that is handed a model is told when it will be asked.

    Since the draw of a tick does not depend on what clients do, the next tick that draws a client
    is known when it gets the model. When clients join or leave, ticks to come are drawn anew;
    appointments that clients know of stand. Who is late is waited for until `grace` has passed,
    and is then due at the next tick.
    """

    def __init__(self, policy: Polling, seed: int, grace: float) -> None:
        rule = f"need 0 <= grace < {policy.period:g}, the time between two ticks"
        require(0 <= grace < policy.period, "grace", grace, rule)
        usual = Polling(selected=1, local_steps=1)
        for key in _SIMULATED:
            rule = "is a reading of the simulated clock, which a federation does not have"
            require(getattr(policy, key) == getattr(usual, key), key, getattr(policy, key), rule)
        self._policy, self._seed, self._grace = policy, seed, grace
        self._tick = 0  # the next one
        self._present: set[int] = set()
        self._new: list[int] = []  # clients without a model
        self._due: dict[int, int] = {}  # tick of each client at work
        self._here: dict[int, ReceivedUpdate] = {}  # that wait for their tick, by client
        self._drawn_from, self._draws = 0, list[list[int]]()

    def join(self, client: int) -> None:
        self._present.add(client)
        if client not in self._here:  # else it is called when its update is used
            self._new.append(client)
        self._draws = []

    def leave(self, client: int) -> None:
        self._present.discard(client)
        if client not in self._here:
            self._due.pop(client, None)
        self._new = [other for other in self._new if other != client]
        self._draws = []

    def answered(self, answer: ReceivedUpdate) -> None:
        self._here[answer.client] = answer

    def lost(self, answer: ReceivedUpdate) -> None:
        del self._here[answer.client], self._due[answer.client]
        if answer.client in self._present:
            self._new.append(answer.client)

    @property
    def wakes(self) -> float:
        time = self._time(self._tick)
        return time + self._grace if self._late() else time

    def turn(self, now: float) -> Turn | None:
        if self._new:
            new, self._new = sorted(self._new), []
            return Turn(calls=[self._call(client) for client in new])
        time = self._time(self._tick)
        if now < time or (self._late() and now < time + self._grace):
            return None
        due = sorted(client for client, tick in self._due.items() if tick <= self._tick)
        use = [self._here.pop(client) for client in due if client in self._here]
        self._tick += 1
        for answer in use:
            del self._due[answer.client]
        calls = [self._call(used.client) for used in use if used.client in self._present]
        return Turn(use or None, calls, due=time)

    def _time(self, tick: int) -> float:
        return (tick + 1) * self._policy.period

    def _late(self) -> bool:
        """Whether client updates are not here that are due at the next tick."""
        due = (client for client, tick in self._due.items() if tick <= self._tick)
        return any(client not in self._here for client in due)

    def _call(self, client: int) -> Dispatch:
        """Hand a model to a client until the next tick that draws it."""
        tick = self._tick
        while client not in self._subset(tick):
            tick += 1
        self._due[client] = tick
        return Dispatch(client, self._time(tick))

    def _subset(self, tick: int) -> list[int]:
        if not 0 <= tick - self._drawn_from < len(self._draws):
            self._drawn_from, size = tick, min(self._policy.selected, len(self._present))
            ticks = np.arange(tick, tick + _TICKS)
            self._draws = _drawn(self._seed, self._present, size, ticks)
        return self._draws[tick - self._drawn_from]


class _Arrivals:
    """The server acts when there are enough client updates."""

    wakes = inf

    def __init__(self, policy: Buffered, seed: int) -> None:
        self._policy, self._seed = policy, seed
        self._present: list[int] = []
        self._new: list[int] = []
        self._idle: list[int] = []
        self._at_work: set[int] = set()
        self._here: deque[ReceivedUpdate] = deque()
        self._buffer: list[ReceivedUpdate] = []
        self._version, self._open_places, self._assigned = -1, 0, 0

    def join(self, client: int) -> None:
        self._present = sorted([*self._present, client])
        here = any(answer.client == client for answer in (*self._here, *self._buffer))
        if not (here and self._policy.in_turn):  # else it is called when its update is used
            self._new.append(client)

    def leave(self, client: int) -> None:
        self._present.remove(client)
        self._new, self._idle = (
            [other for other in some if other != client] for some in (self._new, self._idle)
        )
        if client in self._at_work:
            self._at_work.discard(client)
            self._open_places += 1

    def answered(self, answer: ReceivedUpdate) -> None:
        self._at_work.discard(answer.client)
        self._here.append(answer)

    def lost(self, answer: ReceivedUpdate) -> None:
        if answer in self._buffer:
            self._buffer.remove(answer)
        else:
            self._here.remove(answer)
            self._open_places += 1
        self._new += [client for client in self._free([answer.client]) if client not in self._idle]

    def turn(self, now: float) -> Turn | None:
        if self._new:
            return Turn(calls=self._welcomed())
        if self._open_places and self._idle:  # a client was lost
            return Turn(calls=self._filled())
        if len(self._buffer) == self._policy.buffer:
            return self._flushed()
        return self._taken(self._here.popleft()) if self._here else None

    def _welcomed(self) -> list[Dispatch]:
        """New clients begin, as many as may be at work."""
        most = self._policy.concurrency
        busy = len(self._at_work) + len(self._here)  # whose update is here keeps its place
        room = len(self._new) if most is None else max(0, most - busy)
        order = _drawn(self._seed, self._new, min(room, len(self._new)), np.array([0]))[0]
        self._idle += sorted(set(self._new) - set(order))
        self._new = []
        self._open_places = max(0, self._open_places - len(order))
        return self._calls(order)

    def _taken(self, answer: ReceivedUpdate) -> Turn:
        """A client update goes into the buffer unless it is too old."""
        policy, client = self._policy, answer.client
        limit = policy.max_staleness
        old = limit is not None and self._version - answer.start_version > limit
        if not old:
            self._buffer.append(answer)
        at_once = policy.hand_out == "arrival" or (policy.hand_out == "flush" and old)
        calls = self._calls(self._free([client])) if at_once else []
        if not (old or len(self._buffer) < policy.buffer):
            return Turn(calls=calls)
        kept = policy.distinct and not old  # who has a client update in the buffer is not idle
        return Turn(None, calls + self._next([] if kept else [client]), [answer] if old else [])

    def _flushed(self) -> Turn:
        """The buffer is full: an update."""
        use, self._buffer = self._buffer, []
        self._version += 1
        clients = [answer.client for answer in use]
        if self._policy.hand_out == "flush":
            return Turn(use, self._calls(self._free(clients)))
        return Turn(use, self._next(clients if self._policy.distinct else clients[-1:]))

    def _next(self, idle: list[int]) -> list[Dispatch]:
        """Who gets the place of a client update, where places are not those of the clients."""
        if self._policy.hand_out == "uniform" and self._present:
            return self._calls([self._present[self._draw(len(self._present))]])
        if self._policy.hand_out != "idle":
            return []
        self._idle += [client for client in self._free(idle) if client not in self._idle]
        self._open_places += 1
        return self._filled()

    def _free(self, clients: Iterable[int]) -> list[int]:
        """Those that are present and have nothing to do: a client may have left and come back."""
        return [
            client for client in clients if client in self._present and client not in self._at_work
        ]

    def _filled(self) -> list[Dispatch]:
        """Idle clients, drawn at random, take the open places."""
        clients = []
        while self._open_places and self._idle:
            place = self._draw(len(self._idle))
            self._idle[place], self._idle[-1] = self._idle[-1], self._idle[place]
            clients.append(self._idle.pop())
            self._open_places -= 1
        return self._calls(clients)

    def _calls(self, clients: Iterable[int]) -> list[Dispatch]:
        self._at_work.update(clients)
        return [Dispatch(client) for client in clients]

    def _draw(self, size: int) -> int:
        self._assigned += 1
        return int(uniform(self._seed, Stream.ASSIGNMENT, _SERVER, self._assigned) * size)


class _Rounds:
    """Rounds of random clients; the server waits for all of them, for some, or for a deadline."""

    def __init__(self, policy: Rounds, seed: int) -> None:
        self._policy, self._seed = policy, seed
        self._present: set[int] = set()
        self._round, self._version = -1, -1
        self._began = 0.0
        self._called: set[int] = set()  # who has not answered yet
        self._wanted = 0
        self._here: list[ReceivedUpdate] = []

    def join(self, client: int) -> None:
        self._present.add(client)

    def leave(self, client: int) -> None:
        self._present.discard(client)
        self._called.discard(client)

    def answered(self, answer: ReceivedUpdate) -> None:
        if answer.start_version == self._version:
            self._called.discard(answer.client)
        self._here.append(answer)

    def lost(self, answer: ReceivedUpdate) -> None:
        self._here.remove(answer)  # its client may be called in the next round

    @property
    def wakes(self) -> float:
        return self._began + (self._policy.deadline or inf) if self._called else inf

    def turn(self, now: float) -> Turn | None:
        if self._round < 0:
            return Turn(calls=self._calls(now)) if self._present else None
        if not (self._called or self._here or self._present):  # nobody is there
            return None
        mine = [answer for answer in self._here if answer.start_version == self._version]
        late = now >= self.wakes
        if not late and self._called and len(mine) < self._wanted:
            return None
        use = mine[: self._wanted]
        dropped = [answer for answer in self._here if answer not in use]
        self._here, left = [], sorted(self._called)
        self._version += bool(use)
        return Turn(use or None, self._calls(now), dropped, left)

    def _calls(self, now: float) -> list[Dispatch]:
        """A new round."""
        policy = self._policy
        self._round += 1
        self._began = now
        size = min(policy.selected, len(self._present))
        (chosen,) = _drawn(self._seed, self._present, size, np.array([self._round]))
        self._called, self._wanted = set(chosen), min(policy.wait_for or size, size)
        until = inf if policy.deadline is None else now + policy.deadline
        return [Dispatch(client, until) for client in chosen]


class _Windows:
    """Ticks, at which all client updates that are here are used and their clients begin again."""

    def __init__(self, policy: Windowed) -> None:
        self._policy, self._tick = policy, 0
        self._present: set[int] = set()
        self._new: list[int] = []
        self._here: list[ReceivedUpdate] = []

    def join(self, client: int) -> None:
        self._present.add(client)
        if all(answer.client != client for answer in self._here):
            self._new.append(client)

    def leave(self, client: int) -> None:
        self._present.discard(client)
        self._new = [other for other in self._new if other != client]

    def answered(self, answer: ReceivedUpdate) -> None:
        self._here.append(answer)

    def lost(self, answer: ReceivedUpdate) -> None:
        self._here.remove(answer)
        if answer.client in self._present:
            self._new.append(answer.client)

    @property
    def wakes(self) -> float:
        return (self._tick + 1) * self._policy.period

    def turn(self, now: float) -> Turn | None:
        if self._new:
            new, self._new = sorted(self._new), []
            return Turn(calls=[Dispatch(client) for client in new])
        if now < self.wakes:
            return None
        time, self._tick = self.wakes, self._tick + 1
        use, self._here = sorted(self._here), []
        calls = [Dispatch(answer.client) for answer in use if answer.client in self._present]
        return Turn(use, calls, due=time)
