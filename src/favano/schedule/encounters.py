"""What the clients of a run meet up to its horizon: absence, messages that take time, faults.

It knows jobs and clients, and no policy: the virtual clock asks it when something happens next, and
how long what a job does takes.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterator, Sequence
from math import inf
from typing import NamedTuple, Protocol

import numpy as np

from favano.schedule.schedule import FaultEvent
from favano.timing import ClientSpeeds, Fault, FaultKind
from favano.timing.ties import in_order
from favano.types import Floats

_OF_MESSAGES: tuple[FaultKind, ...] = ("lose", "late", "duplicate")


class Job(Protocol):
    """A job, as far as it matters here."""

    client: int
    number: int
    ready: float  # when its first step begins
    pace: float  # its steps take so many times as long
    copies: int  # of its update
    held: float  # how long it has hung
    hung: tuple[float, float] | None  # since when it hangs


class Happening(NamedTuple):
    """Something that happens to a client, or a job that the server no longer waits for."""

    time: float
    what: FaultKind  # leave and start: it goes away, and comes
    client: int
    fault: bool = True  # or its presence
    job: Job | None = None


class Encounters:
    """What happens to the clients of one run, in the order of time."""

    def __init__(self, fleet: ClientSpeeds) -> None:
        conditions, clients = fleet.conditions, fleet.clients
        self._presence, self.mode = conditions.presence, conditions.when_away
        self._links, self.timeout = conditions.links, conditions.timeout
        self._there = np.ones(clients, dtype=bool)  # as their presence has it
        self._changes: deque[tuple[float, int, bool]] = deque()
        if (presence := self._presence) is not None:
            self._there = presence.at(np.arange(clients), 0.0)
            changes = zip(*(column.tolist() for column in presence.changes()), strict=True)
            self._changes.extend(change for change in changes if change[0] > 0)
        self._client_of = {stream: client for client, stream in enumerate(fleet.streams.tolist())}
        self._script, self._fault_time = deque(conditions.faults), 0.0
        self._gone = self._late_joiners()  # by faults
        self._hung: set[int] = set()
        self._pending: dict[int, list[tuple[FaultKind, float, float]]] = {}  # what, value, since
        self._slow: dict[int, float] = {}
        self._poison: dict[int, float] = {}
        self._timeouts: list[tuple[float, int, Job]] = []
        self._down_free = self._up_free = 0.0  # when the server's link is free
        self._through: set[int] = set()  # jobs whose updates have passed it
        self.events: list[FaultEvent] = []

    def _late_joiners(self) -> set[int]:
        """Clients whose first fault is a start."""
        first: dict[int, FaultKind] = {}
        for fault in self._script:
            for stream in fault.clients:
                first.setdefault(self._client_of[stream], fault.what)
        return {client for client, what in first.items() if what == "start"}

    @property
    def at_first(self) -> list[int]:
        """The clients that are there at the beginning."""
        return [
            client for client in np.flatnonzero(self._there).tolist() if client not in self._gone
        ]

    def is_there(self, client: int) -> bool:
        """Whether a client is there now."""
        return bool(self._there[client]) and client not in self._gone and client not in self._hung

    def next_time(self, server_steps: int) -> float:
        """When something happens next, in order; infinity: never."""
        change = self._changes[0][0] if self._changes else inf
        given_up = self._timeouts[0][0] if self._timeouts else inf
        return in_order(min(change, given_up, self._next_fault(server_steps)))

    def _next_fault(self, server_steps: int) -> float:
        if not self._script or self._script[0].server_steps > server_steps:
            return inf
        return self._fault_time + self._script[0].after

    def take(self, now: float, server_steps: int) -> Iterator[Happening]:
        """What happens at this time, the next time that something does."""
        time = in_order(now)
        while self._changes and in_order(self._changes[0][0]) <= time:
            when, client, comes = self._changes.popleft()
            self._there[client] = comes
            yield Happening(when, "start" if comes else "leave", client, fault=False)
        while self._script and in_order(self._next_fault(server_steps)) <= time:
            fault = self._script.popleft()
            self._fault_time = now
            for stream in fault.clients:
                if happening := self._met(fault, self._client_of[stream], now):
                    yield happening
        while self._timeouts and in_order(self._timeouts[0][0]) <= time:
            when, _, job = heapq.heappop(self._timeouts)
            yield Happening(when, "timeout", job.client, fault=False, job=job)

    def _met(self, fault: Fault, client: int, now: float) -> Happening | None:
        match fault.what:
            case "leave":
                self._gone.add(client)
            case "start":
                self._gone.discard(client)
            case "hang":
                self._hung.add(client)
            case "continue":
                self._hung.discard(client)
            case "crash":
                pass
            case what:
                self._pending.setdefault(client, []).append((what, fault.value, now))
                return None
        return Happening(now, fault.what, client)

    def note(self, time: float, client: int, what: FaultKind, job: int = -1) -> None:
        """A fault has met a client, and this job."""
        self.events.append(FaultEvent(time, client, what, job))

    def end(self) -> tuple[FaultEvent, ...]:
        """All faults, those that have met nothing included."""
        for client, faults in self._pending.items():
            for what, _, since in faults:
                self.note(since, client, what)
        return tuple(sorted(self.events))

    def pace(self, job: Job, now: float) -> float:
        """How many times as long the steps of a job take, which begins now."""
        for value in self._take_pending(job, now, ("slow",)).values():
            self._slow[job.client] = value
        return self._slow.get(job.client, 1.0)

    def scale(self, job: Job, now: float) -> float:
        """What the client multiplies the delta of its update by."""
        for value in self._take_pending(job, now, ("poison",)).values():
            self._poison[job.client] = value
        return self._poison.get(job.client, 1.0)

    def message(self, job: Job, now: float) -> dict[FaultKind, float]:
        """What becomes of the update of a job that arrives now."""
        return self._take_pending(job, now, _OF_MESSAGES)

    def _take_pending(
        self, job: Job, now: float, kinds: tuple[FaultKind, ...]
    ) -> dict[FaultKind, float]:
        """The first fault of each of these kinds that waits for a job of this client."""
        waiting = self._pending.get(job.client)
        if not waiting:
            return {}
        taken: dict[FaultKind, float] = {}
        for fault in list(waiting):
            what, value, _ = fault
            if what in kinds and what not in taken:
                taken[what] = value
                waiting.remove(fault)
                self.note(now, job.client, what, job.number)
        return taken

    def received(self, client: int, now: float) -> float:
        """When a client has the model that it is sent now."""
        if (links := self._links) is None:
            return now
        passed = self._down_free = max(now, self._down_free) + links.server_down
        return self._worked_until(client, now, passed - now + float(links.down[client]))

    def sent(self, client: int, time: float) -> float:
        """When an update that is ready at this time has come over the client's own link."""
        work = 0.0 if self._links is None else float(self._links.up[client])
        if work > 0 and self.mode != "lost":
            return self._worked_until(client, time, work)
        return self.reachable(client, time) + work

    def reachable(self, client: int, time: float) -> float:
        """When a client is there, from this time on; who leaves then is still there."""
        presence = self._presence
        if presence is None or self.mode == "lost" or time == inf:
            return time
        who = np.array(client)
        if presence.at(who, np.nextafter(time, 0)):
            return time
        return float(presence.there_from(who, time))

    def passed(self, job: Job, now: float) -> float:
        """When an update that has come to the server's own link is through."""
        links = self._links
        if links is None or not links.server_up or job.number in self._through:
            return now
        self._through.add(job.number)
        through = self._up_free = max(now, self._up_free) + job.copies * links.server_up
        return through

    def done(self, client: int, ready: float, work: float) -> float:
        """When a client that began then has worked for so long."""
        return ready + work if self.mode != "paused" else self._worked_until(client, ready, work)

    def _worked_until(self, client: int, since: float, work: float) -> float:
        presence = self._presence
        if presence is None or self.mode == "lost" or work == 0 or since == inf:
            return since + work
        return float(presence.after(np.array(client), since, work))

    def worked(self, jobs: Sequence[Job], time: Floats) -> Floats:
        """How long each of these jobs has been worked on by these times, (m,), at usual pace."""
        client, ready, pace, held = np.array(
            [
                (job.client, job.ready, job.pace, _held(job, now))
                for job, now in zip(jobs, time, strict=True)
            ]
        ).T
        ready = np.minimum(ready, time)  # it may never begin
        worked = time - ready
        if self._presence is not None and self.mode == "paused":
            who = client.astype(np.int64)
            worked = self._presence.time_there(who, time) - self._presence.time_there(who, ready)
        return np.asarray(np.maximum(worked - held, 0.0) / pace)

    def wait_for(self, job: Job, now: float) -> None:
        """The server waits for the update of a job from now on."""
        if self.timeout < inf:
            heapq.heappush(self._timeouts, (now + self.timeout, job.number, job))


def _held(job: Job, now: float) -> float:
    """How long a job has hung by now."""
    return job.held + (0.0 if job.hung is None else max(now - job.hung[0], 0.0))


def encounters_of(fleet: ClientSpeeds) -> Encounters | None:
    """What happens to the clients of a run; None: nothing."""
    return None if fleet.conditions.always_there else Encounters(fleet)
