"""What a method is: options, a contact policy, and a few pure functions on flat models."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import ClassVar, Generic, NamedTuple, Protocol, Self, TypeVar, cast

import numpy as np

from favano.errors import BadInput, format_error, require
from favano.methods.arrays import column
from favano.methods.context import Context
from favano.options import Options
from favano.schedule import Adaptive, Policy, Rounds, Schedule
from favano.types import Floats, Ints, Stack, Vector


class Expected(NamedTuple):
    """What the server expects of clients' steps, (k,) each, where it measures them."""

    positive: Floats  # P(E > 0)
    mean: Floats  # E[min(E, K)]


@dataclass(frozen=True)
class ClientUpdates:
    """The k answers that go into one update, one row per answer."""

    client: Ints  # (k,)
    steps: Ints  # (k,) local steps made, X
    staleness: Ints  # (k,) updates since the answer's start model
    rate: Floats  # (k,) step size of the local steps
    version: int  # of the new model: 0 at the first update
    start: Stack  # (k, P) models that the clients started from
    end: Stack  # (k, P) models that they arrived at
    expected: Expected | None = None  # None: nobody measures

    def weighted_delta(self, weight: Floats) -> Vector:
        """The weighted sum of what the clients achieved, sum_i weight_i (end_i - start_i)."""
        return (column(weight, self.end) * (self.end - self.start)).sum(0)


class State(Protocol):
    """What the server remembers: a named tuple that holds at least the model w_t."""

    @property
    def model(self) -> Vector:
        """The server model, (P,)."""

    def _replace(self, *, model: Vector) -> Self:
        """The same state with another model."""


class ModelState(NamedTuple):
    """The state of a method that remembers nothing but the model."""

    model: Vector


S = TypeVar("S", bound=State)


class Method(Options, ABC, Generic[S]):
    """A method of federated learning.

    A method is one class in one file: its options, whom the server asks and when (`policy`), and
    what it does with the answers (`update`). The other hooks have a standard behaviour and are
    written only where a method differs. All of them are pure: same inputs, same outputs, inputs
    untouched. `self.context` says what is known of the run: clients, speeds, K, samples per client.

    Class attributes declare the rest: `name` on the command line and `title` in print (by default
    both follow from the class), `linear` if updates are linear in all models involved, `distances`
    if they are sums of models with weights that depend on nothing of the models but `norm()` of
    their differences, `memory` as the number of vectors that a client keeps from job to job, and
    `suggests`, defaults of local training that belong to the method.
    """

    name: ClassVar[str] = ""
    title: ClassVar[str] = ""
    linear: ClassVar[bool] = False
    distances: ClassVar[bool] = False
    memory: ClassVar[int] = 0
    suggests: ClassVar[Mapping[str, object]] = MappingProxyType({})
    import_path: ClassVar[str] = ""  # `file.py:Name`, where it was read from a file
    plot_style: ClassVar[int | None] = None  # its place among our colours and in our lists

    label: str = field(default="", kw_only=True)  # its name in one comparison

    @classmethod
    def declare(cls) -> None:
        """Name the method, and refuse hooks that contradict each other."""
        if cls.__module__ == __name__:
            return
        cls.name = cls.__dict__.get("name") or cls.__name__.lower()
        cls.title = cls.__dict__.get("title") or cls.__name__
        others = [attribute.name for attribute in fields(cls) if "option" not in attribute.metadata]
        names = ", ".join(name for name in others if name != "label")
        rule = f"{names}: declare it by favano.option, or without a type if it is a constant"
        require(not names, "method", cls.name, rule)
        both = cls.has("gradient_correction") and cls.has("next_client_model")
        rule = "corrects gradients (drift), so its clients must all start from the newest model"
        require(not both, "method", cls.name, f"{rule}; leave out restart")
        steps = cls.has("local_step") == (cls.memory > 0)
        require(steps, "method", cls.name, "memory and step go together: give both or neither")

    def __post_init__(self) -> None:
        with self.hook("check"):
            super().__post_init__()

    @abstractmethod
    def policy(self) -> Policy:
        """Whom the server asks, and when."""

    @abstractmethod
    def aggregate(self, state: S, updates: ClientUpdates) -> S:
        """The state after one update from k answers; models hold the trained parameters."""

    def init(self, model: Vector) -> S:
        """State before the first update. Everybody holds w_0."""
        return cast(S, ModelState(model))

    def next_client_model(self, server: Vector, own: Stack) -> Stack | None:
        """Models the answering clients go on from, given w_{t-1} and theirs; None: they take w_t.

        Behind a codec each client reads w_{t-1} in its own way: `server` then has a row for each.
        """
        return None

    def gradient_correction(self, state: S, client: Ints) -> Stack | None:
        """What is added to the gradients of clients that start from w_t, (k, P).

        It is constant during a job, and travels beside the start model.
        """
        return None

    def local_step(
        self, gradient: Stack, memory: tuple[Stack, ...]
    ) -> tuple[Stack, tuple[Stack, ...]]:
        """The direction of a local step, and the client's memory after it.

        `gradient` holds the proximal pull and the drift already. Number by number: lanes call it
        for any part of a model, and for many clients at once. A client begins with zeros. The
        optimiser of local training follows.
        """
        return gradient, memory

    def next_steps(self, state: S, client: Ints) -> Ints | None:
        """Steps of these clients' next jobs, (k,), for a policy that leaves them open."""
        return None

    def aggregate_buffers(self, server: Vector, clients: Stack, updates: ClientUpdates) -> Vector:
        """The server's buffers (BatchNorm statistics): averaged, never reweighted."""
        return average_with_server(server, clients)

    def rates(self, schedule: Schedule) -> Floats:
        """Factor on the learning rate of each job, (J,)."""
        return np.ones(len(schedule.client))

    @property
    def context(self) -> Context:
        """What is known of the run that the method is part of."""
        context: Context | None = self.__dict__.get("_world")
        if context is None:
            raise BadInput("method", self.name, "has no run yet; use method.bind(world)")
        return context

    def bind(self, context: Context) -> Self:
        """The same method as a part of one run; what contradicts itself is refused."""
        bound = replace(self)
        object.__setattr__(bound, "_world", context)
        with self.hook("policy"):
            policy = bound.policy()
        rule = f"policy returns {policy!r}; need a contact policy, such as self.context.rounds()"
        require(isinstance(policy, Policy), "method", self.name, rule)
        if self.has("gradient_correction"):
            rule = "corrects gradients (drift), so its clients must all start from the newest model"
            require(isinstance(policy, Rounds), "method", self.name, f"{rule}: need rounds")
        grows = isinstance(policy, Adaptive)
        rule = "says how long jobs are (next_steps), which goes with the policy Adaptive"
        require(self.has("next_steps") == grows, "method", self.name, rule)
        return bound

    def job_rates(self, schedule: Schedule) -> Floats:
        """The factors of `rates`, or a refusal."""
        with self.hook("rates"):
            factors: object = self.rates(schedule)
        shape = (len(schedule.client),)
        rule = f"rates must return a NumPy array of shape {shape}, one factor per job"
        if not isinstance(factors, np.ndarray) or factors.shape != shape:
            raise BadInput("method", self.name, rule)
        good = factors.dtype.kind in "fiu" and bool(((factors >= 0) & (factors < np.inf)).all())
        require(good, "method", self.name, "rates must return finite factors of at least 0")
        return factors

    @contextmanager
    def hook(self, name: str, *others: type[Exception]) -> Iterator[None]:
        """An error in a hook is the method's, and names the hook; `others` are not."""
        try:
            yield
        except Exception as error:
            if isinstance(error, (BadInput, *others)):
                raise
            raise BadInput("method", self.name, f"{name} raises {format_error(error)}") from error

    @property
    def corrects(self) -> bool:
        """Whether the gradients of its clients are corrected."""
        return self.has("gradient_correction")

    @property
    def grows(self) -> bool:
        """Whether its schedule grows with the run, since jobs depend on the models."""
        return self.has("next_steps")

    @classmethod
    def has(cls, hook: str) -> bool:
        """Whether a method differs from the standard behaviour of a hook."""
        return getattr(cls, hook) is not getattr(Method, hook)


def average_with_server(server: Vector, clients: Stack) -> Vector:
    """(w + sum_i w_i) / (k + 1), the weights of methods that keep a part of the old model."""
    return (server + clients.sum(0)) / (len(clients) + 1)
