"""Methods bound to a small world."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol, Self, TypeVar, cast

from favano.methods import AnyMethod, Context, Method
from favano.methods.accumulation import PLAIN_SGD, Accumulation
from favano.methods.clock import ServerClock
from favano.methods.favano import Favano
from favano.methods.favano_delta import FavanoDelta
from favano.methods.method import S
from favano.methods.weights import Weights
from favano.policies import StepsPerJob
from favano.schedule import Schedule, plan
from favano.timing import ClientSpeeds, two_speeds
from favano.types import Floats


class Bindable(Protocol):
    """A method of any kind, which stays of its kind."""

    def bind(self, context: Context) -> Self: ...


M = TypeVar("M", bound=Bindable)
F = TypeVar("F", Favano, FavanoDelta)


def bound(
    method: M,
    fleet: ClientSpeeds | int = 8,  # or the number of clients of two speeds
    local_steps: StepsPerJob = 3,
    *,
    selected: int = 2,
    clock: ServerClock | None = None,
    samples: Floats | None = None,
    accumulation: Accumulation = PLAIN_SGD,
) -> M:
    """The method as a part of a run with these clients."""
    clients = two_speeds(fleet) if isinstance(fleet, int) else fleet
    times = replace(clock or ServerClock(), selected=selected)
    count = None if samples is None else lambda: samples
    context = Context(clients, local_steps, times, count, accumulation=accumulation)
    return method.bind(context)


def weighed(method: F, weights: Weights) -> F:
    """A bound copy whose clients expect to make so many steps."""
    copy = method.bind(method.context)
    copy.__dict__["expected"] = weights
    return copy


def scheduled(method: Method[S], horizon: float, seed: int = 0) -> Schedule:
    """The schedule of a bound method."""
    return plan(method.policy(), method.context.fleet, horizon=horizon, seed=seed)


def any_method(method: Method[S]) -> AnyMethod:
    """A method whose state is not looked at."""
    return cast(AnyMethod, method)
