"""What a method is: options, a policy, and a few pure functions on flat models."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, Generic, NamedTuple, Protocol, Self, TypeVar, cast

import numpy as np

from favano.errors import BadInput, in_hook, require
from favano.methods.arrays import column
from favano.methods.context import Context
from favano.options import Options, refuse_unread, unknown_attribute
from favano.policies import Policy, Rounds
from favano.schedule import Schedule
from favano.types import Floats, Ints, Stack, Vector

HOOKS = (
    "check", "policy", "init", "aggregate", "next_client_model", "gradient_correction",
    "local_step", "aggregate_buffers", "rates",
)  # fmt: skip


class Expected(NamedTuple):
    """What a real deployment expects of the local steps E that clients have made when asked.

    Args:
        positive: (k,) P(E > 0).
        mean: (k,) the mean of min(E, K), with at most K local steps per client update.
    """

    positive: Floats
    mean: Floats


@dataclass(frozen=True)
class ClientUpdates:
    """The k client updates that one server step is made of, one row each.

    Args:
        client: (k,) numbers of the clients, 0..n-1.
        steps: (k,) local steps made, X = min(E, K).
        staleness: (k,) server steps made since the client's start model.
        rate: (k,) step size of the local steps.
        version: number of server steps made before this one.
        start: (k, P) models that the clients started from.
        end: (k, P) models that they arrived at; the delta of a client is end - start.
        expected: what a real deployment expects of these clients' steps; None in simulations,
            where their distribution is known.
    """

    client: Ints
    steps: Ints
    staleness: Ints
    rate: Floats
    version: int
    start: Stack
    end: Stack
    expected: Expected | None = None

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> None:
            """Say what there is."""
            raise unknown_attribute("a favano.ClientUpdates", ClientUpdates, name)

    def rows(self, rows: Ints) -> ClientUpdates:
        """Some of them."""
        parts = {part.name: getattr(self, part.name) for part in fields(self)}
        kept = {name: value[rows] for name, value in parts.items() if hasattr(value, "shape")}
        expected = self.expected and Expected(*(values[rows] for values in self.expected))
        return replace(self, **kept, expected=expected)

    def weighted_delta(self, weight: Floats) -> Vector:
        """The weighted sum of the deltas, sum_i weight_i (end_i - start_i), (P,).

        Args:
            weight: (k,) weight of each client update.
        """
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
    how the server aggregates what they send (`aggregate`). The other hooks have a standard
    behaviour and are written only where a method differs. All of them are pure: same inputs, same
    outputs, inputs untouched. Models are flat tensors of P parameters, a `Stack` has one per row. A
    *job* is the local training of one client from one start model. `self.context` says what is
    known of the run: clients, speeds, K, samples per client.

    Class attributes declare the rest: `name` on the command line and `title` in print (by default
    both follow from the class), `linear` if `aggregate` is linear in all models involved,
    `distances` if it is a sum of models with weights that depend on nothing of the models but
    the Euclidean `norm` of their differences, `memory` as the number of vectors that a client keeps
    from job to job, `suggests`, defaults of local training that belong to the method, and
    `any_policy` if `aggregate` makes sense for whatever updates a policy uses: a run may then name
    another policy. A method without a `policy` takes that of the run.
    """

    name: ClassVar[str] = ""
    title: ClassVar[str] = ""
    linear: ClassVar[bool] = False
    distances: ClassVar[bool] = False
    memory: ClassVar[int] = 0
    suggests: ClassVar[Mapping[str, object]] = MappingProxyType({})
    import_path: ClassVar[str] = ""  # `file.py:Name`, where it was read from a file
    plot_style: ClassVar[int | None] = None  # number of its colour and marker
    any_policy: ClassVar[bool] = False  # whether a run may name another policy than its own
    policy_options: ClassVar[tuple[str, ...]] = ()  # those that only its own policy reads
    meaningless: ClassVar[Mapping[str, str]] = MappingProxyType({})  # options of others, and why

    label: str = field(default="", kw_only=True)  # its name in one comparison

    @classmethod
    def declare(cls) -> None:
        """Name the method, and refuse hooks that contradict each other."""
        if cls.__module__ == __name__:
            return
        cls.name = cls.__dict__.get("name") or cls.__name__.lower()
        cls.title = cls.__dict__.get("title") or cls.__name__
        refuse_unread(cls, Method, "method", HOOKS)
        others = [attribute.name for attribute in fields(cls) if "option" not in attribute.metadata]
        names = ", ".join(name for name in others if name != "label")
        rule = f"{names}: declare it by favano.option, or without a type if it is a constant"
        require(not names, "method", cls.name, rule)
        both = cls.has("gradient_correction") and cls.has("next_client_model")
        rule = "has a gradient_correction, so its clients must all start from the newest model"
        require(not both, "method", cls.name, f"{rule}; remove next_client_model")
        cls.any_policy |= not cls.has("policy")
        steps = cls.has("local_step") == (cls.memory > 0)
        require(
            steps,
            "method",
            cls.name,
            "memory and local_step require each other: give both or neither",
        )

    def __post_init__(self) -> None:
        with self.hook("check"):
            super().__post_init__()

    def policy(self) -> Policy:
        """Whom the server asks, and when; by default as the run says."""
        rule = f"{self.name} has none of its own; name one, as --policy rounds or policy="
        raise BadInput("policy", "none", rule)

    @abstractmethod
    def aggregate(self, state: S, updates: ClientUpdates) -> S:
        """The state after one server step, made of k client updates.

        Args:
            state: what the server remembers, with the model w_{t-1}, (P,).
            updates: what the clients sent; models hold the trained parameters, (k, P).
        """

    def init(self, model: Vector) -> S:
        """The state before the first server step.

        Args:
            model: (P,) the initial model w_0, which all clients hold.
        """
        return cast(S, ModelState(model))

    def next_client_model(self, server: Vector, own: Stack) -> Stack | None:
        """Models from which these k clients continue, (k, P); None: from the new w_t.

        Args:
            server: (P,) w_{t-1}; (k, P) if messages are compressed, as each client decodes it.
            own: (k, P) the clients' models at the end of their jobs.
        """
        return None

    def gradient_correction(self, state: S, client: Ints) -> Stack | None:
        """What is added to the gradients of clients that start from w_t, (k, P); None: nothing.

        It is constant during a job, and is sent with the start model.

        Args:
            state: what the server remembers, with w_t.
            client: (k,) numbers of the clients.
        """
        return None

    def local_step(
        self, gradient: Stack, memory: tuple[Stack, ...]
    ) -> tuple[Stack, tuple[Stack, ...]]:
        """The direction of a local step, and the client's memory after it.

        It must work elementwise: it is called for any part of a model, and for many clients at
        once. The client optimiser follows.

        Args:
            gradient: (k, p) gradients, with the proximal term and the gradient correction.
            memory: as many arrays of (k, p) as `memory` says; zeros before a client's first step.
        """
        return gradient, memory

    def aggregate_buffers(self, server: Vector, clients: Stack, updates: ClientUpdates) -> Vector:
        """The server's new buffers, (B,), such as BatchNorm statistics.

        Args:
            server: (B,) the server's buffers.
            clients: (k, B) those of the clients.
            updates: the same client updates as in `aggregate`.
        """
        return average_with_server(server, clients)

    def rates(self, schedule: Schedule) -> Floats:
        """Factor on the learning rate of each job, (J,).

        Args:
            schedule: all J jobs: client, steps, start version and the server step that uses each.
        """
        return np.ones(len(schedule.client))

    @property
    def context(self) -> Context:
        """What is known of the run that the method is part of."""
        context: Context | None = self.__dict__.get("_context")
        if context is None:
            raise BadInput("method", self.name, "has no run yet; use method.bind(context)")
        return context

    def bind(self, context: Context) -> Self:
        """The same method as a part of one run; what contradicts itself is refused."""
        bound = replace(self)
        object.__setattr__(bound, "_context", context)
        policy = bound._own_policy() if context.policy is None else bound._taken(context)
        object.__setattr__(bound, "_policy", policy)
        if self.has("gradient_correction"):
            rule = "has a gradient_correction, so its clients must all start from the newest model"
            require(isinstance(policy, Rounds), "method", self.name, f"{rule}: need rounds")
        return bound

    def _own_policy(self) -> Policy:
        with self.hook("policy"):
            policy = self.policy()
        rule = f"policy returns {policy!r}; need a favano.Policy, such as self.context.rounds()"
        require(isinstance(policy, Policy), "method", self.name, rule)
        return policy

    def _taken(self, context: Context) -> Policy:
        """The policy that the run names, with the values of the run."""
        policy = context.run_policy
        rule = f"{self.name} aggregates what its own policy uses, and takes no other"
        require(self.any_policy, "policy", type(policy).__name__, rule)
        return policy

    @property
    def run_policy(self) -> Policy:
        """Whom the server asks, and when: the policy that the run names, or the method's own."""
        policy: Policy | None = self.__dict__.get("_policy")
        if policy is None:
            raise BadInput("method", self.name, "has no run yet; use method.bind(context)")
        return policy

    def job_rates(self, schedule: Schedule) -> Floats:
        """The factors of `rates`; raises BadInput if they are not valid."""
        with self.hook("rates"):
            factors: object = self.rates(schedule)
        shape = (len(schedule.client),)
        rule = f"rates must return a NumPy array of shape {shape}, one factor per job"
        if not isinstance(factors, np.ndarray) or factors.shape != shape:
            raise BadInput("method", self.name, rule)
        good = factors.dtype.kind in "fiu" and bool(((factors >= 0) & (factors < np.inf)).all())
        require(good, "method", self.name, "rates must return finite factors of at least 0")
        return factors

    def hook(self, name: str, *passing: type[Exception]) -> AbstractContextManager[None]:
        """An exception in a hook becomes BadInput with its name; `passing` ones do not."""
        return in_hook("method", self.name, name, *passing)

    @property
    def corrects(self) -> bool:
        """Whether the gradients of its clients are corrected."""
        return self.has("gradient_correction")

    @classmethod
    def has(cls, hook: str) -> bool:
        """Whether a method differs from the standard behaviour of a hook."""
        return getattr(cls, hook) is not getattr(Method, hook)


def average_with_server(server: Vector, clients: Stack) -> Vector:
    """(w + sum_i w_i) / (k + 1), the weights of methods that keep a part of the old model w."""
    return (server + clients.sum(0)) / (len(clients) + 1)
