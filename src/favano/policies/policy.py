"""What a policy is: whom the server asks, when, and what it waits for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import FrozenInstanceError, replace
from math import inf, nan
from typing import ClassVar, NamedTuple, NoReturn, Self, TypeAlias

from favano.errors import BadInput, in_hook, require
from favano.options import Options, option, refuse_unread
from favano.rng import Stream, word
from favano.user_classes import is_ours

VALUES = ("loss", "delta_norm", "server_distance")  # of client updates, that policies may see
HOOKS = (
    "check", "start", "join", "leave", "away", "back", "receive", "act", "wakes", "lost", "end",
)  # fmt: skip
_SERVER = 2**40  # the server's own stream among those of the clients

StepsPerJob: TypeAlias = int | tuple[int, ...]  # K of all clients, or of each


class ReceivedUpdate(NamedTuple):
    """A client update, as far as policies know it: values only if the policy `sees` them."""

    client: int
    job: int  # number of the job, in the order of dispatch
    start_version: int  # the version that it began from; -1: the initial model
    steps: int = 0  # local steps made
    duration: float = nan  # of its local steps
    values: tuple[tuple[str, float], ...] = ()  # names and values that the policy sees

    @property
    def loss(self) -> float:
        """Mean training loss of its local steps, each before the step; NaN without a step."""
        return self._value("loss")

    @property
    def delta_norm(self) -> float:
        """How long its delta is: the distance between its start and its end model."""
        return self._value("delta_norm")

    @property
    def server_distance(self) -> float:
        """How far the server model has moved from its start model when it arrives."""
        return self._value("server_distance")

    def _value(self, name: str) -> float:
        for known, value in self.values:
            if known == name:
                return value
        raise AttributeError(f"{name} is for policies that say so: sees = ({name!r},)")


class Dispatch(NamedTuple):
    """A client is sent the newest model, and begins a job."""

    client: int
    until: float = inf  # it answers then, or once all its steps are made
    steps: int | None = None  # local steps; None: the K of this client
    waits: bool = False  # whether it sends its update only when it is asked


class Action(NamedTuple):
    """What the server does now: drop updates, cancel jobs, make a server step, dispatch."""

    use: Sequence[ReceivedUpdate] | None = None  # of the server step; None: there is none
    dispatch: Sequence[Dispatch] = ()
    drop: Sequence[ReceivedUpdate] = ()  # updates that will not be used
    cancel: Sequence[int] = ()  # clients whose jobs are no longer waited for
    ask: Sequence[int] = ()  # clients at work that stop and send what they have
    due: float | None = None  # when it was to be done, if that was planned


def _set_state(self: Policy, name: str, value: object) -> None:
    if name in type(self).__dataclass_fields__:
        raise FrozenInstanceError(f"{type(self).__name__}.{name} is an option: it cannot change")
    object.__setattr__(self, name, value)


class Policy(Options, ABC):
    """A state machine that is told what happens and says what to do.

    It knows neither models nor messages nor a clock. In a simulation the virtual clock calls it
    (`schedule/virtual_clock.py`), in a federation the server; it cannot tell which. Its options are
    declared by `favano.option` and never change; all other attributes are state, and `start` sets
    them. Two policies with the same options are equal, whatever their state.

    Times are those of the run, from 0 on. `act` is called after every event and at `wakes`, again
    and again until it returns None.

    A policy that looks at values of client updates names them: `sees = ("loss", "delta_norm")`.
    Then its timeline grows with the run and cannot be planned. Values may be NaN: no local step was
    made, training has diverged, or the number of updates is only estimated before a run.
    """

    name: ClassVar[str] = ""  # on the command line; by default that of the class
    import_path: ClassVar[str] = ""  # `file.py:Name`, where it was read from a file

    local_steps: StepsPerJob = option(
        20, "local steps per job, of all clients or of each", symbol="K"
    )

    @classmethod
    def declare(cls) -> None:
        """Name the policy, and let attributes be set that are not options."""
        cls.name = cls.__dict__.get("name") or cls.__name__.lower()
        if cls.__module__ != __name__:
            refuse_unread(cls, Policy, "policy", HOOKS)
        setattr(cls, "__setattr__", _set_state)  # noqa: B010

    def __post_init__(self) -> None:
        with policy_errors(self):
            super().__post_init__()

    def started(self, seed: int) -> Self:
        """The same policy at the beginning of a run."""
        machine = replace(self)
        machine.start(seed)
        return machine

    def start(self, seed: int) -> None:
        """Set the state before anything has happened; no client has joined yet.

        Args:
            seed: of the policy's random draws.
        """

    @abstractmethod
    def join(self, client: int, now: float) -> None:
        """A client can be asked from now on."""

    @abstractmethod
    def leave(self, client: int, now: float) -> None:
        """A client is gone with whatever it was doing; updates that are here may be used."""

    @abstractmethod
    def receive(self, update: ReceivedUpdate, now: float) -> None:
        """A client update is here."""

    def away(self, client: int, now: float) -> None:
        """A client at work cannot be reached; it comes back, and its job is not lost."""

    def back(self, client: int, now: float) -> None:
        """A client at work that was away can be reached again."""

    @abstractmethod
    def act(self, now: float) -> Action | None:
        """What to do now; None: nothing."""

    @abstractmethod
    def wakes(self) -> float:
        """When to ask again at the latest; infinity: when something happens."""

    def steps_of(self, client: int) -> int:
        """K of a client."""
        return _of(client, self.local_steps)

    @property
    def longest_job(self) -> int:
        """The largest K of a client."""
        return self.local_steps if isinstance(self.local_steps, int) else max(self.local_steps)

    @property
    def sees(self) -> Sequence[str]:
        """Values of client updates that it looks at, of `VALUES`."""
        return ()

    @property
    def grows(self) -> bool:
        """Whether jobs depend on models, so that nothing can be planned."""
        return bool(self.sees)

    @property
    def most_steps(self) -> StepsPerJob:
        """The most local steps of a job: K, unless the policy says otherwise."""
        return self.local_steps

    @property
    def queues(self) -> bool:
        """Whether clients at work may be given more jobs, which they do one after the other."""
        return False

    @property
    def asks(self) -> bool:
        """Whether clients at work are asked for what they have, as simulations alone can."""
        return False

    @property
    def server_pause(self) -> float:
        """Simulated time that a server step takes."""
        return 0.0

    @property
    def client_pause(self) -> float:
        """Simulated time between the dispatch of a job and its first step."""
        return 0.0

    def lost(self, update: ReceivedUpdate, now: float) -> None:
        """An update that was here is not; if it is used nevertheless, it is left out."""

    def end(self) -> Sequence[ReceivedUpdate]:
        """Updates of a last server step at the horizon of a simulation, if there is one."""
        return ()


class InTurn(Policy):
    """Who is there, who has no job, and whose update is here: it begins again once that is used."""

    def start(self, seed: int) -> None:
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

    def away(self, client: int, now: float) -> None:
        self._present.discard(client)

    def back(self, client: int, now: float) -> None:
        self._present.add(client)

    def receive(self, update: ReceivedUpdate, now: float) -> None:
        self._here.append(update)

    def lost(self, update: ReceivedUpdate, now: float) -> None:
        self._here.remove(update)
        if update.client in self._present:
            self._new.append(update.client)


def _of(client: int, steps: StepsPerJob) -> int:
    return steps if isinstance(steps, int) else steps[client]


def policy_errors(policy: Policy) -> AbstractContextManager[None]:
    """An exception in a policy of one's own becomes BadInput with its name, by any clock."""
    return nullcontext() if is_ours(policy) else in_hook("policy", type(policy).__name__, "")


def drawn_place(seed: int, index: int, size: int) -> int:
    """One of 0..size-1: draw number `index` of the server."""
    return int(server_draw(seed, Stream.ASSIGNMENT, index) * size)


def server_draw(seed: int, stream: Stream, index: int) -> float:
    """A uniform draw in (0, 1) of the server."""
    high = (word(seed, stream, _SERVER, index) % 2**64) >> 12
    return float((high + 0.5) * 2.0**-52)


class Referee:
    """Refuses what a policy cannot mean, in one sentence with its name, by any clock."""

    def __init__(self, policy: Policy, *, asking: bool = False) -> None:
        """`asking` says whether the clock can ask clients at work."""
        self._name, self._queues, self._most = (
            type(policy).__name__,
            policy.queues,
            policy.most_steps,
        )
        self._time, self._actions = -inf, 0
        rule = "asks clients at work; a federation tells them beforehand when to send: need ahead"
        require(asking or not policy.asks, "policy", self._name, rule)
        for name in policy.sees:
            known = ", ".join(VALUES)
            require(name in VALUES, "policy", self._name, f"sees {name!r}; known: {known}")
        rule = "sees values, and queues jobs of clients at work: both together are not possible"
        require(not (policy.sees and policy.queues), "policy", self._name, rule)

    def check(
        self,
        action: object,
        now: float,
        *,
        present: Collection[int],
        busy: Collection[int],
        here: Collection[int],
    ) -> None:
        """Check one action.

        Args:
            action: what `act` returned.
            now: the time.
            present: clients that can be asked.
            busy: clients at work.
            here: numbers of the jobs whose updates are here.
        """
        if not isinstance(action, Action):
            self._refuse(f"act returns {action!r}; need a favano.Action or None", now)
        if updates := (*action.drop, *(action.use or ())):
            jobs = [update.job for update in updates]
            for update in updates:
                if update.job not in here:
                    rule = "uses or drops an update that is not here, or no longer"
                    self._refuse(f"{rule}: job {update.job} of client {update.client}", now)
            if len(set(jobs)) < len(jobs):
                self._refuse("uses or drops an update twice in one action", now)
        for client in action.cancel:
            if client not in busy:
                self._refuse(f"cancels client {client}, which is not at work", now)
        for client in action.ask:
            if client not in busy or client not in present:
                self._refuse(f"asks client {client}, which is not at work, or not there", now)
        for client, until, steps, _ in action.dispatch:
            if client not in present:
                self._refuse(f"dispatches client {client}, which is not there", now)
            if client in busy and not self._queues and client not in action.cancel:
                self._refuse(f"dispatches client {client}, which is at work already", now)
            if not until > now:
                self._refuse(f"dispatches client {client} until {until:g}, which is past", now)
            if steps is not None and not 1 <= steps <= (most := _of(client, self._most)):
                self._refuse(f"dispatches client {client} for {steps} steps; need 1..{most}", now)
        if len(action.dispatch) > 1 and not self._queues:
            clients = [job.client for job in action.dispatch]
            if len(set(clients)) < len(clients):
                self._refuse("dispatches a client twice in one action", now)
        self._actions = self._actions + 1 if now == self._time else 0
        self._time = now
        if self._actions > _MOST_ACTIONS + 4 * len(present):
            self._refuse("acts without end; act must return None once nothing is to be done", now)

    def waits(self, wakes: object, now: float, *, for_clients: bool) -> float:
        """When to ask again, after `act` has returned None."""
        if not isinstance(wakes, float | int):
            self._refuse(f"wakes returns {wakes!r}; need a time", now)
        if not wakes > now:  # NaN too
            self._refuse(f"wakes at {wakes:g}, which is past, and does nothing", now)
        if wakes == inf and not for_clients:
            self._refuse("waits forever: no client is at work, and wakes() is infinity", now)
        return wakes

    def _refuse(self, rule: str, now: float) -> NoReturn:
        raise BadInput("policy", self._name, f"{rule} (time {now:g})")


_MOST_ACTIONS = 10_000  # at one time, besides a few per client


def check_selected(selected: int, clients: int) -> None:
    """Refuse more clients per server step than there are."""
    require(1 <= selected <= clients, "selected", selected, f"need 1..clients ({clients})")


def check_work(selected: int, local_steps: StepsPerJob) -> None:
    """Refuse policies without clients or without steps."""
    require(selected >= 1, "selected", selected, "need at least 1")
    least = local_steps if isinstance(local_steps, int) else min(local_steps, default=0)
    require(least >= 1, "local_steps", local_steps, "need at least 1")


def check_time(name: str, value: float) -> None:
    """Refuse negative times."""
    require(value >= 0, name, value, "need a time >= 0")
