"""What a method declares is tried out on a tiny model."""

from __future__ import annotations

from typing import NamedTuple

import pytest
import torch

from favano.errors import BadInput
from favano.methods import AnyMethod, ClientUpdates, Method, ModelState, State, our_methods
from favano.options import option
from favano.policies import Rounds
from favano.preflight.method import check_method
from favano.types import Ints, Stack, Vector
from tests.methods.bound import any_method, bound


def check(method: AnyMethod, clients: int = 4) -> None:
    """Check a method in a run of so many clients."""
    check_method(bound(method, clients, selected=min(2, clients)))


@pytest.mark.parametrize("clients", [1, 2, 4, 60])
@pytest.mark.parametrize("name", our_methods())
def test_all_of_ours_are_what_they_say(name: str, clients: int) -> None:
    check(our_methods()[name](), clients)


class Mean(Method[ModelState]):
    """The mean of the clients, with one mistake at a time."""

    linear = True

    mistake: str = option("none", "what goes wrong")

    def policy(self) -> Rounds:
        return self.context.rounds()

    def aggregate(self, state: ModelState, updates: ClientUpdates) -> ModelState:
        if self.mistake == "square":
            return ModelState(updates.end.square().mean(0))
        if self.mistake == "constant":
            return ModelState(updates.end.mean(0) + 1.0)
        if self.mistake == "end":
            updates.end.mul_(2)
        if self.mistake == "start":
            updates.start.zero_()
        if self.mistake == "state":
            state.model.add_(1)
        if self.mistake == "shape":
            return ModelState(updates.end)
        if self.mistake == "nothing":
            return None  # type: ignore[return-value]
        if self.mistake == "nan":
            return ModelState(updates.end.mean(0) * torch.nan)
        if self.mistake == "random":
            return ModelState(updates.end.mean(0) * torch.rand(()))
        if self.mistake == "memory":
            self.__dict__["calls"] = 1 + self.__dict__.get("calls", 0)
            return ModelState(updates.end.mean(0) * self.__dict__["calls"])
        if self.mistake == "raise":
            raise KeyError("client 7")
        return ModelState(updates.end.mean(0))


def test_a_method_without_a_mistake_passes() -> None:
    check(any_method(Mean()))


@pytest.mark.parametrize(
    ("mistake", "rule"),
    [
        ("square", "declares itself linear, but what it makes of a sum is not the sum"),
        ("constant", "declares itself linear, but what it makes of a sum is not the sum"),
        ("end", "changes its arguments in aggregate; return a new state instead"),
        ("start", "changes its arguments in aggregate; return a new state instead"),
        ("state", "changes its arguments in aggregate; return a new state instead"),
        ("shape", r"aggregate returns a model of shape \(2, 5\); need that of the server's model"),
        (
            "nothing",
            "aggregate must return a state whose field model is a tensor, such as favano.Mod",
        ),
        ("nan", "aggregate makes NaN or infinity of finite models"),
        ("random", "gives another result for the same client updates: it must not draw at random"),
        ("memory", "gives another result for the same client updates: it must not draw at random"),
        ("raise", "aggregate raises KeyError: 'client 7'"),
    ],
)
def test_mistakes_are_found(mistake: str, rule: str) -> None:
    with pytest.raises(BadInput, match=f"method=mean: {rule}"):
        check(any_method(Mean(mistake=mistake)))


class Squares(Method[ModelState]):
    """Not linear, and it says so."""

    def policy(self) -> Rounds:
        return self.context.rounds()

    def aggregate(self, state: ModelState, updates: ClientUpdates) -> ModelState:
        return ModelState(updates.end.square().mean(0))


def test_nothing_linear_is_asked_of_those_that_are_not() -> None:
    check(any_method(Squares()))


def test_a_refusal_of_the_method_itself_is_passed_on() -> None:
    class Strict(Method[ModelState]):
        def policy(self) -> Rounds:
            return self.context.rounds()

        def aggregate(self, state: ModelState, updates: ClientUpdates) -> ModelState:
            raise BadInput("temperature", 3, "need at most 2")

    with pytest.raises(BadInput, match="temperature=3: need at most 2"):
        check(any_method(Strict()))


class Bare(NamedTuple):
    """A state without a model."""

    weights: Vector


def test_a_state_needs_a_model() -> None:
    class Modelless(Method[State]):
        def policy(self) -> Rounds:
            return self.context.rounds()

        def init(self, model: Vector) -> State:
            return Bare(model)  # type: ignore[return-value]

        def aggregate(self, state: State, updates: ClientUpdates) -> State:
            return state

    rule = "method=modelless: init must return a state whose field model is a tensor, such as fav"
    with pytest.raises(BadInput, match=rule):
        check(Modelless())


class Seen(NamedTuple):
    """A state with a number that is not known yet."""

    model: Vector
    last: Vector
    best: float


def test_a_state_may_hold_nan_beside_the_model() -> None:
    class Unseen(Method[Seen]):
        def policy(self) -> Rounds:
            return self.context.rounds()

        def init(self, model: Vector) -> Seen:
            return Seen(model, model * torch.nan, float("nan"))

        def aggregate(self, state: Seen, updates: ClientUpdates) -> Seen:
            return state._replace(model=updates.end.mean(0))

    check(any_method(Unseen()))


class Keeping(Method[ModelState]):
    """Its clients have a memory, go on from their own models, and make one mistake."""

    linear = True
    memory = 1

    mistake: str = option("none", "what goes wrong")

    def policy(self) -> Rounds:
        return self.context.rounds()

    def aggregate(self, state: ModelState, updates: ClientUpdates) -> ModelState:
        return ModelState(updates.end.mean(0))

    def next_client_model(self, server: Vector, own: Stack) -> Stack:
        if self.mistake == "own":
            own.add_(server)
        if self.mistake == "one":
            return own.mean(0)
        return own.abs() if self.mistake == "restart" else own / 2

    def local_step(
        self, gradient: Stack, memory: tuple[Stack, ...]
    ) -> tuple[Stack, tuple[Stack, ...]]:
        if self.mistake == "memory":
            memory[0].add_(gradient)
        if self.mistake == "forgets":
            return gradient, ()
        if self.mistake == "norm":
            return gradient / gradient.norm(), memory
        if self.mistake == "row":
            return gradient / gradient.norm(dim=-1, keepdim=True), memory
        if self.mistake == "total":
            return gradient, (memory[0] + gradient.sum(),)
        sign = torch.sign(gradient) if self.mistake == "sign" else gradient
        return sign, (memory[0] + gradient,)


@pytest.mark.parametrize(
    ("mistake", "rule"),
    [
        ("restart", "declares itself linear, but what it makes of a sum is not the sum"),
        ("sign", "declares itself linear, but what it makes of a sum is not the sum"),
        (
            "own",
            "changes its arguments in next_client_model or gradient_correction; return new models",
        ),
        ("memory", "changes its arguments in local_step; return new vectors instead"),
        (
            "one",
            r"next_client_model must return a tensor with one model per client, \(k, P\), or None",
        ),
        ("norm", "local_step must treat each number of a gradient on its own"),
        ("row", "local_step must treat each number of a gradient on its own"),
        ("total", "local_step must treat each number of a gradient on its own"),
        ("forgets", "keeps 0 vectors after a step, but declares memory=1"),
    ],
)
def test_hooks_of_the_clients_are_tried_too(mistake: str, rule: str) -> None:
    check(any_method(Keeping()))
    with pytest.raises(BadInput, match=f"method=keeping: {rule}"):
        check(any_method(Keeping(mistake=mistake)))


class Drifting(Method[ModelState]):
    """Corrects gradients by a square, which is not linear."""

    linear = True

    per_client: bool = option(True, "a correction for each client")

    def policy(self) -> Rounds:
        return self.context.rounds()

    def aggregate(self, state: ModelState, updates: ClientUpdates) -> ModelState:
        return ModelState(updates.end.mean(0))

    def gradient_correction(self, state: ModelState, client: Ints) -> Stack:
        square = state.model.square()
        return square.expand(len(client), -1) if self.per_client else square


def test_so_are_corrections() -> None:
    with pytest.raises(BadInput, match="method=drifting: declares itself linear"):
        check(any_method(Drifting()))


def test_corrections_are_one_per_client() -> None:
    rule = "method=drifting: gradient_correction must return a tensor with one model per client"
    with pytest.raises(BadInput, match=rule):
        check(any_method(Drifting(per_client=False)))


class Nearest(Method[ModelState]):
    """The server moves to the clients by an amount that depends on how far they are."""

    distances = True

    by: str = option("distance", "what the amount depends on")

    def policy(self) -> Rounds:
        return self.context.rounds()

    def aggregate(self, state: ModelState, updates: ClientUpdates) -> ModelState:
        mean = updates.end.mean(0)
        if self.by == "distance":
            amount = float((mean - state.model).norm())
        elif self.by == "length":
            amount = float(mean.norm())
        elif self.by == "largest":
            amount = float(mean.max())
        elif self.by == "torch":
            amount = float(torch.linalg.norm(mean))
        else:
            amount = float(mean.abs().double()[0])
        return ModelState(state.model + (mean - state.model) / (1.0 + amount))


@pytest.mark.parametrize("by", ["distance", "length"])
def test_methods_may_read_distances(by: str) -> None:
    check(any_method(Nearest(by=by)))


@pytest.mark.parametrize("by", ["largest", "number", "torch"])
def test_methods_that_read_more_than_distances_are_refused(by: str) -> None:
    rule = "declares that it reads nothing but distances of models, which is not so"
    with pytest.raises(BadInput, match=rule):
        check(any_method(Nearest(by=by)))
