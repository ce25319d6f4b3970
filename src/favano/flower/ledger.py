"""The ledger of a federation: everything that happened, as a list of events.

Who is called, which updates are used and what is known of the clients all follow from the events.
A server that was killed reads them again, and is where it was.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Sequence
from math import inf
from statistics import median
from typing import NamedTuple, TypeAlias

import numpy as np

from favano.aggregation import PerUpdate
from favano.errors import one_line, require
from favano.flower.step_estimates import StepEstimates
from favano.methods.method import Expected
from favano.policies import Action, Policy, Polling, ReceivedUpdate, Referee, policy_errors
from favano.schedule import Schedule, Timeline
from favano.schedule.contact_trace import ContactTrace, trace_of
from favano.schedule.timeline import NOTES, SCALES
from favano.screening import LEAST_STEP, Refusal
from favano.types import Floats, Ints

_SIMULATED = (
    "interruption", "starts_at_zero", "idle_in_interaction", "strict_ties", "overrun", "step_count",
)  # fmt: skip
_SPEEDS, _ENOUGH_SPEEDS = 9, 5  # updates of a client that say how fast it is: at most, at least


class Joined(NamedTuple):
    """A node takes the place of a client, for the first time or again."""

    time: float
    client: int
    node: int


class Left(NamedTuple):
    """A client is lost, with whatever it was doing."""

    time: float
    client: int
    failure: str = ""  # what went wrong; empty: it is gone


class Measured(NamedTuple):
    """What the policy sees of a client update, which is accepted next."""

    time: float
    job: int
    values: Sequence[tuple[str, float]]


class UsedUpdate(NamedTuple):
    """A client update was accepted."""

    time: float
    job: int
    steps: int
    seconds: float
    partition: int = -1  # of the data, if the client says so


class RefusedUpdate(NamedTuple):
    """A client update was refused; if it was awaited, its client is called again after a pause."""

    time: float
    job: int
    reason: str
    pause: float = 0.0  # seconds


class Lost(NamedTuple):
    """A client update that was accepted, and not used yet, is no longer on disk."""

    time: float
    job: int


class Dropped(NamedTuple):
    """A client update that the newest update was to use is not used."""

    time: float
    job: int


class Clipped(NamedTuple):
    """A change that was too long is used in part."""

    time: float
    job: int
    scale: float  # of the parameters
    buffer_scale: float


class Turned(NamedTuple):
    """The server did what its policy says."""

    time: float


Event: TypeAlias = (
    Joined | Left | Measured | UsedUpdate | RefusedUpdate | Lost | Dropped | Clipped | Turned
)
EVENTS: dict[str, Callable[..., Event]] = {
    kind.__name__: kind
    for kind in (Joined, Left, Measured, UsedUpdate, RefusedUpdate, Lost, Dropped, Clipped, Turned)
}


class OpenJob(NamedTuple):
    """A job whose update is not here yet."""

    client: int
    begin: float
    until: float  # its appointment; infinity: none
    key: int  # the client's job before, if its start model is known to both sides; -1: none
    steps: int  # that it makes at most


class Turn(NamedTuple):
    """What the policy does now, with the numbers of the jobs that begin."""

    action: Action
    begun: Sequence[int]


class Ledger:
    """Follows the events of one federation.

    Args:
        policy: when the server asks whom.
        clients: number of places n.
        seed: of the draws of clients.
        rates: step size of each job that is handed out now, from the jobs so far.
        packed: whether models are sent beside others that clients have.
        estimates: what is known of the clients' steps, if their weights are measured.
    """

    def __init__(
        self,
        policy: Policy,
        clients: int,
        seed: int,
        rates: Callable[[Schedule, float], Floats],
        *,
        packed: bool = False,
        estimates: StepEstimates | None = None,
    ) -> None:
        most = (
            policy.most_steps if isinstance(policy.most_steps, int) else np.array(policy.most_steps)
        )
        self.clients, self.timeline = clients, Timeline(clients, most, NOTES)
        _check_real_time(policy)
        with policy_errors(policy):
            self.policy, self._referee = policy.started(seed), Referee(policy)
        self._quiet: float | None = None  # since when there is nothing to do
        self._here: dict[int, ReceivedUpdate] = {}  # by job: neither used nor dropped
        self._values: dict[int, tuple[tuple[str, float], ...]] = {}  # of updates, as they come
        self.estimates = estimates
        self._rates, self._packed = rates, packed
        self._newest: dict[int, int] = {}  # job of each client, if nothing went wrong since
        self._calls = Counter[int]()  # by client
        self.node_of: dict[int, int] = {}  # the last node of each client
        self.client_of: dict[int, int] = {}  # of each node that has a place
        self.present: set[int] = set()  # clients that can be called
        self.away_since: dict[int, float] = {}
        self.open: dict[int, OpenJob] = {}
        self.given_up: set[int] = set()  # jobs
        self.used: dict[int, list[int]] = {}  # jobs of each client
        self.refused: dict[int, Counter[str]] = {}  # by client and reason
        self.refused_in_a_row = Counter[int]()  # awaited client updates, by client
        self.paused: dict[int, float] = {}  # clients that are not called before a time
        self._speeds: dict[int, deque[float]] = {}  # steps per second of the last client updates
        self.clipped = Counter[int]()  # changes that were used in part, by client
        self.failures = Counter[int]()  # calls that were not answered, by client
        self.failing: dict[int, str] = {}  # clients whose last call failed, and why
        self.length = 0  # events so far

    def apply(self, event: Event) -> Turn | None:
        """Follow one event; of a turn, say what is to be done."""
        self.length += 1
        with policy_errors(self.policy):
            return self._follow(event)

    def _follow(self, event: Event) -> Turn | None:
        match event:
            case Joined(time, client, node):
                self._join(client, node, time)
            case Left(time, client, failure):
                self._leave(client, time, failure)
            case Measured(time, job, values):
                self._values[job] = tuple((name, value) for name, value in values)
            case UsedUpdate(time, job, steps, seconds, partition):
                self._answer(time, job, steps, seconds, partition)
            case RefusedUpdate(time, job, reason, pause):
                self._refuse(time, job, reason, pause)
            case Lost(time, job):
                self._lose(job, time)
            case Dropped(time, job):
                self.timeline.drop(job)
                self.used[int(self.timeline.known.client[job])].remove(job)
            case Clipped(time, job, scale, buffer_scale):
                self.clipped[int(self.timeline.known.client[job])] += 1
                self.timeline.note([job], "scale", scale)
                self.timeline.note([job], "buffer_scale", buffer_scale)
            case Turned(time):
                turn = self._act(time)
                assert turn is not None, "a turn was noted that cannot be"
                return turn
        return None

    def turn_at(self, time: float) -> tuple[Event, Turn] | None:
        """What is to be done now; None: nothing."""
        with policy_errors(self.policy):
            turn = self._act(time)
        if turn is None:
            return None
        self.length += 1
        return Turned(time), turn

    def wakes(self) -> float:
        """When the policy is to be asked again at the latest."""
        with policy_errors(self.policy):
            wakes = self.policy.wakes()
        if self._quiet is None:
            return wakes
        somebody = bool(self.open) or len(self.present) < self.clients  # others may join
        return self._referee.waits(wakes, self._quiet, for_clients=somebody)

    def expected(self, jobs: Ints) -> Expected:
        """What was expected of the clients of these jobs when they answered."""
        return Expected(self.timeline.noted("positive")[jobs], self.timeline.noted("mean")[jobs])

    def scales(self, jobs: Ints) -> PerUpdate:
        """What the changes of these jobs are multiplied by."""
        return PerUpdate(*(self.timeline.noted(name)[jobs] for name in SCALES))

    def used_last(self, client: int) -> int:
        """The job of a client that was used last; -1: none."""
        return (self.used.get(client) or [-1])[-1]

    def usual_speed(self, client: int) -> float | None:
        """Steps per second of a client, the median of its last updates; None: there are too few.

        Each claim that was refused as unlikely has taken one of these updates with it, so that a
        client that has really become faster is believed after some of them.
        """
        speeds = self._speeds.get(client, ())
        return median(speeds) if len(speeds) >= _ENOUGH_SPEEDS else None

    def lost_seconds(self, client: int) -> float:
        """Seconds per contact in which a client cannot train, as measured so far."""
        return 0.0 if self.estimates is None else float(self.estimates.lost_seconds[client])

    @property
    def jobs(self) -> int:
        """Number of jobs so far."""
        return len(self.timeline.known.client)

    def begin(self, job: int) -> float:
        """When a job was handed out."""
        return float(self.timeline.known.begin[job])

    @property
    def trace(self) -> ContactTrace:
        """What has happened, for the simulator to repeat."""
        everyone = range(self.clients)
        nodes = np.array([self.node_of.get(client, 0) for client in everyone], dtype=np.uint64)
        return trace_of(self.timeline, nodes.view(np.int64))

    def _join(self, client: int, node: int, time: float) -> None:
        before = self.node_of.get(client)
        if before is not None and before != node:
            self.client_of.pop(before, None)
            self._speeds.pop(client, None)  # those of another machine
            self.refused_in_a_row.pop(client, None)
        self.node_of[client], self.client_of[node] = node, client
        self.present.add(client)
        self.away_since.pop(client, None)
        self.paused.pop(client, None)
        self.policy.join(client, time)

    def _leave(self, client: int, time: float, failure: str) -> None:
        if failure:
            self.failures[client] += 1
            self.failing[client] = one_line(failure)
        self.present.discard(client)
        self.away_since[client] = time
        self._give_up(client, time)
        self.policy.leave(client, time)

    def _answer(self, time: float, job: int, steps: int, seconds: float, partition: int) -> None:
        client, begin, *_ = self.open.pop(job)
        self.failing.pop(client, None)
        self.refused_in_a_row.pop(client, None)
        if steps:
            speeds = self._speeds.setdefault(client, deque(maxlen=_SPEEDS))
            speeds.append(steps / max(seconds, LEAST_STEP))
        timeline = self.timeline
        timeline.receive(job, steps, time)
        timeline.note([job], "seconds", seconds)
        timeline.note([job], "partition", partition)
        if self.estimates is not None:
            expected = self.estimates.expected(np.array([client]))
            timeline.note([job], "positive", expected.positive)
            timeline.note([job], "mean", expected.mean)
            self.estimates.count(client, steps, seconds, time - begin)
        known = timeline.known
        version, values = int(known.start_version[job]), self._values.pop(job, ())
        self._here[job] = ReceivedUpdate(client, job, version, steps, seconds, values)
        self.policy.receive(self._here[job], time)

    def _refuse(self, time: float, job: int, reason: str, pause: float) -> None:
        """The client is called again, from the newest model, as if it had joined then."""
        client = int(self.timeline.known.client[job])
        self.refused.setdefault(client, Counter())[Refusal(reason)] += 1
        if job not in self.open:
            return
        self.refused_in_a_row[client] += 1
        if reason == Refusal.UNLIKELY:
            self._speeds[client].popleft()
        self._give_up(client, time)
        self.policy.leave(client, time)
        if pause:
            self.present.discard(client)
            self.away_since[client], self.paused[client] = time, time + pause
        else:
            self.policy.join(client, time)

    def _lose(self, job: int, time: float) -> None:
        """The contact counts as missed; a client that waits for it to be used is called again."""
        update = self._here.pop(job)
        self.timeline.drop(job)
        self._newest.pop(update.client, None)
        self.policy.lost(update, time)

    def _give_up(self, client: int, time: float) -> None:
        self._newest.pop(client, None)
        for job in [job for job, opened in self.open.items() if opened.client == client]:
            del self.open[job]
            self.given_up.add(job)
        self.timeline.give_up(client, time)

    def _act(self, time: float) -> Turn | None:
        action = self.policy.act(time)
        self._quiet = time if action is None else None
        if action is None:
            return None
        busy = {opened.client for opened in self.open.values()}
        self._referee.check(action, time, present=self.present, busy=busy, here=self._here)
        for update in action.drop:
            self.timeline.drop(update.job)
        for client in action.cancel:
            self._give_up(client, time)
        if action.use is not None:
            self.timeline.use([update.job for update in action.use], time)
            for update in action.use:
                self.used.setdefault(update.client, []).append(update.job)
        for update in (*action.drop, *(action.use or ())):
            del self._here[update.job]
        begun = [self.timeline.begin(dispatch.client, time) for dispatch in action.dispatch]
        if begun:
            self.timeline.note(begun, "rate", self._rates(self.timeline.known, time)[begun])
        for job, dispatch in zip(begun, action.dispatch, strict=True):
            key = self._key(job, dispatch.client)
            steps = dispatch.steps or self.policy.steps_of(dispatch.client)
            self.open[job] = OpenJob(dispatch.client, time, dispatch.until, key, steps)
        return Turn(action, begun)

    def _key(self, job: int, client: int) -> int:
        """Note how a job's model is sent, and return the job whose start model it is read with."""
        timeline, key = self.timeline, self._newest.get(client, -1) if self._packed else -1
        base = timeline.known.start_version
        again = key >= 0 and base[key] == base[job]
        timeline.note([job], "whole", timeline.noted("whole")[key] if again else float(key < 0))
        timeline.note([job], "message", self._calls[client])
        self._calls[client] += 1
        self._newest[client] = job
        return key


def _check_real_time(policy: Policy) -> None:
    """Refuse what only a simulation has."""
    if isinstance(policy, Polling):
        for key in _SIMULATED:
            rule = "is a reading of the simulated clock, which a federation does not have"
            require(key not in policy.given, key, getattr(policy, key), rule)


def estimates_for(
    policy: Policy, clients: int, *, step_seconds: float, lost: float
) -> StepEstimates | None:
    """Estimates where they mean something: for clients that are asked whenever it is time."""
    if not isinstance(policy, Polling):
        return None
    return StepEstimates(policy, clients, step_seconds=step_seconds, lost=lost)


def overdue(ledger: Ledger, now: float, patience: float) -> list[int]:
    """Clients whose updates are so late that they are given up."""
    late = [
        job.client
        for job in ledger.open.values()
        if now > (job.begin if job.until == inf else job.until) + patience
    ]
    return sorted(set(late))


def changes(
    ledger: Ledger, online: Collection[int], hung: Collection[int], now: float
) -> Iterator[Joined | Left]:
    """What follows from the nodes that are online; each event is to be applied before the next.

    A node keeps its number. A new one gets the first number that nobody has had, and if there is
    none, that of the client that has been away for longest: a node without a registered key comes
    back as a new one. Clients that hang are not called until they give a sign of life, those whose
    client updates are refused not before their pause is over.
    """
    for client in sorted(ledger.present):
        if ledger.node_of[client] not in online:
            yield Left(now, client)
    for node in sorted(online):
        known = ledger.client_of.get(node)
        place = _free_place(ledger, online) if known is None else known
        waits = place in hung or (known is not None and now < ledger.paused.get(known, now))
        if place is not None and place not in ledger.present and not waits:
            yield Joined(now, place, node)


def _free_place(ledger: Ledger, online: Collection[int]) -> int | None:
    """A place for a new node; None: all are taken."""
    clients = range(ledger.clients)
    new = next((client for client in clients if client not in ledger.node_of), None)
    if new is not None:
        return new
    away = [client for client in ledger.away_since if ledger.node_of[client] not in online]
    return min(away, key=lambda client: (ledger.away_since[client], client), default=None)
