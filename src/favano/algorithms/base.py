"""What an algorithm is: a contact policy and three pure functions on flat models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, Self, TypeVar, cast

import numpy as np

from favano.schedule import Policy
from favano.types import Floats, Ints, Stack, Vector


@dataclass(frozen=True)
class Visit:
    """What the server knows of the k answers that go into one update."""

    client: Ints  # (k,)
    steps: Ints  # (k,) local steps made, X
    staleness: Ints  # (k,) updates since the answer's start model
    rate: Floats  # (k,) step size of the local steps
    version: int  # of the new model: 0 at the first update


class State(Protocol):
    """Running state of the server; whatever else it holds, it holds the model w_t."""

    @property
    def model(self) -> Vector:
        """The server model, (P,)."""

    def _replace(self, *, model: Vector) -> Self:
        """The same state with another model: states are named tuples."""


class ModelState(NamedTuple):
    """State of the methods that remember nothing but the model."""

    model: Vector


S = TypeVar("S", bound=State)


class Algorithm(Protocol[S]):
    """A method of federated learning. Pure: same inputs, same outputs, inputs untouched."""

    @property
    def policy(self) -> Policy:
        """Whom the server asks, and when."""

    def init(self, model: Vector) -> S:
        """State before the first update."""

    def update(self, state: S, visit: Visit, start: Stack, end: Stack) -> S:
        """One server update from k answers: start and end models, (k, P), trained parameters."""

    def restart(self, server: Vector, own: Stack) -> Stack | None:
        """Models the visited clients go on from, given w_{t-1} and theirs; None: they take w_t.

        Behind a codec each client reads w_{t-1} in its own way: `server` then has a row for each.
        """

    def drift(self, state: S, client: Ints) -> Stack | None:
        """What is added to the gradients of clients that start from w_t, (k, P); None: nothing.

        It is constant during a job, and travels beside the start model. Only a method whose clients
        all start from the newest model may have one.
        """

    def next_steps(self, state: S, client: Ints) -> Ints | None:
        """Steps of these clients' next jobs, (k,), where the policy leaves them open; else None."""

    def average(self, server: Vector, clients: Stack, visit: Visit) -> Vector:
        """The server's buffers (BatchNorm statistics): averaged, never reweighted."""

    def rate(self, client: Ints) -> Floats:
        """Factor on the step size of each client."""


def average_with_server(server: Vector, clients: Stack) -> Vector:
    """(w + sum_i w_i) / (k + 1), the weights of methods that keep a part of the old model."""
    return (server + clients.sum(0)) / (len(clients) + 1)


def same_rate(client: Ints) -> Floats:
    """Every client steps with the learning rate itself."""
    return np.ones(len(client))


def column(values: Floats, like: Stack | Floats) -> Stack:
    """Numbers of the schedule half as a column (k, 1) that multiplies the rows of `like`.

    Rows may be NumPy's too: that is how weights are found, and why PyTorch is imported late.
    """
    if isinstance(like, np.ndarray):
        return cast(Stack, values[:, None])
    import torch

    return torch.as_tensor(values, dtype=like.dtype, device=like.device)[:, None]


def copies(model: Vector, like: Stack | Floats) -> Stack:
    """A copy of one model, or of a model per row, for every row of `like`; NumPy's rows too."""
    if isinstance(like, np.ndarray):
        return cast(Stack, np.broadcast_to(cast(Floats, model), like.shape).copy())
    return model.expand_as(like).clone()


def stacked(models: Sequence[Vector], like: Vector | Floats) -> Stack:
    """Models as rows, none of them included; NumPy's too."""
    if isinstance(like, np.ndarray):
        rows = np.array(models).reshape(len(models), len(like))
        return cast(Stack, rows)
    import torch

    return torch.stack([*models]) if models else like.new_empty(0, len(like))


def zeros(like: Vector | Floats) -> Vector:
    """A model of zeros; NumPy's too."""
    if isinstance(like, np.ndarray):
        return cast(Vector, np.zeros_like(like))
    return like.new_zeros(like.shape)
