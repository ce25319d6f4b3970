"""The server's optimiser: numbers by hand, its reductions, and methods that have no step."""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np
import pytest
import torch
from torch import Tensor

import favano
from favano.aggregation import Aggregator, ServerChain
from favano.engine import PlainLoop
from favano.errors import BadInput
from favano.methods import Method, our_methods
from favano.methods.fedavg import FedAvg
from favano.methods.fedfix import FedFix
from favano.methods.method import S
from favano.specification.server_part import ServerPart
from favano.training import Layout
from favano.transforms import AnyTransform, as_transform
from favano.transforms.adagrad import Moments
from tests.methods.bound import bound, scheduled
from tests.problems import close, quadratics, start_model

Name: TypeAlias = Literal["momentum", "adagrad", "adam", "yogi"]
AVERAGING = {"favano", "quafl", "fedasync", "aafl"}


def vector(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def walked(text: str, *steps: float) -> list[float]:
    """The models of a server that starts at 1, given the steps of the method."""
    optimiser, model, values = as_transform(text), vector(1.0), []
    state = optimiser.init(model)
    for step in steps:
        moved, state = optimiser.step(state, vector(step))
        model = model + moved
        values.append(float(model))
    return values


def test_momentum_by_hand() -> None:
    """m = 2, then 0.5 * 2 - 1 = 0, then 0.5 * 0 + 1 = 1."""
    values = walked("momentum:0.5:rate=0.1", 2.0, -1.0, 1.0)
    assert values == pytest.approx([1.2, 1.2, 1.3])


def test_momentum_is_that_of_torch() -> None:
    optimiser = favano.momentum(0.9, rate=0.3)
    parameter = torch.nn.Parameter(vector(1.0, -2.0))
    theirs = torch.optim.SGD([parameter], lr=0.3, momentum=0.9)
    model, state = parameter.detach().clone(), optimiser.init(vector(0.0, 0.0))
    for step in (vector(1.0, 2.0), vector(-3.0, 0.5), vector(0.1, 0.2)):
        parameter.grad = -step
        theirs.step()
        moved, state = optimiser.step(state, step)
        model = model + moved
        assert close(model, parameter.detach())


@pytest.mark.parametrize(
    ("name", "squares"),
    [
        ("adagrad", [0.25 + 4, 0.25 + 4 + 1]),
        ("adam", [0.9 * 0.25 + 0.1 * 4, 0.9 * 0.625 + 0.1 * 1]),
        ("yogi", [0.25 + 0.1 * 4, 0.65 + 0.1 * 1]),
    ],
)
def test_squares_by_hand(name: str, squares: list[float]) -> None:
    """Steps 2 and -1, tau = 1/2: v begins with 1/4, m is 1 and then 1/2 * 1 - 1/2 * 1 = 0."""
    text = f"{name}:0.1:0.5:0.5" + ("" if name == "adagrad" else ":0.9")
    first = 1 + 0.1 * 1 / (squares[0] ** 0.5 + 0.5)
    assert walked(text, 2.0, -1.0) == pytest.approx([first, first])
    optimiser = as_transform(text)
    _, state = optimiser.step(optimiser.init(vector(0.0)), vector(2.0))
    _, state = optimiser.step(state, vector(-1.0))
    assert isinstance(state, Moments)
    assert float(state.square) == pytest.approx(squares[1])


def test_yogi_shrinks_slowly() -> None:
    """By (1 - beta_2) D^2 at most, where Adam forgets a share of v."""
    before = Moments(vector(0.0), vector(9.0))
    yogi = favano.yogi(0.1, momentum=0.0, epsilon=0.1, beta2=0.9)
    assert float(yogi.step(before, vector(1.0))[1].square) == pytest.approx(8.9)


def models(method: Method[S], *texts: str) -> list[Tensor]:
    schedule, initial = scheduled(method, 300), start_model()
    layout, rates = Layout(parameters=4, buffers=0, counters=0), np.full(len(schedule.client), 0.1)
    chain = ServerChain(method, [as_transform(text) for text in texts])
    run = Aggregator(method, schedule, layout, rates, initial, server=chain)
    return [event.server for event in PlainLoop(run, quadratics(8)).events()]


def test_without_momentum_and_with_rate_one_nothing_changes() -> None:
    method = bound(FedAvg(), 8)
    plain = models(method)
    same = models(method, "momentum:0:1")
    assert len(plain) > 4
    assert all(close(a, b) for a, b in zip(plain, same, strict=True))


def test_the_rate_is_that_of_the_method() -> None:
    """A step of the server times 1/2 is a server learning rate of 1/2."""
    half = models(bound(FedAvg(server_learning_rate=0.5), 8))
    optimised = models(bound(FedAvg(), 8), "momentum:0:rate=0.5")
    assert all(close(a, b) for a, b in zip(half, optimised, strict=True))


def test_an_update_without_answers_makes_no_step() -> None:
    """Windows in which nobody is back, though the momentum is not zero."""
    method = bound(FedFix(window=2.0), 8)
    schedule = scheduled(method, 300)
    servers = models(method, "momentum")
    empty = [v for v in range(schedule.updates) if not (schedule.used_by == v).any()]
    assert any(float((servers[v + 1] - servers[0]).norm()) > 0 for v in empty)
    assert all(torch.equal(servers[v], servers[v + 1]) for v in empty)


@pytest.mark.parametrize("name", list(our_methods()))
def test_methods_that_average_models_have_no_step(name: str) -> None:
    method = bound(our_methods()[name](), 8)
    adam = [as_transform("adam")]
    if name in AVERAGING:
        rule = f"server=adam: cannot be used with {name}, which averages models"
        with pytest.raises(BadInput, match=rule):
            ServerChain(method, adam)
    else:
        ServerChain(method, adam)


def test_usual_numbers_are_those_of_the_papers() -> None:
    assert ServerPart().chain == ()
    expected: dict[Name, AnyTransform] = {
        "momentum": as_transform(favano.momentum(0.9, 1.0)),
        "adagrad": as_transform(favano.adagrad(0.01, 0.0, 1e-3)),
        "adam": as_transform(favano.adam(0.01, 0.9, 1e-3, 0.99)),
        "yogi": as_transform(favano.yogi(0.01, 0.9, 1e-3, 0.99)),
    }
    assert {name: ServerPart(server_optimiser=name).chain for name in expected} == {
        name: (optimiser,) for name, optimiser in expected.items()
    }
    zero = ServerPart(server_optimiser="adam", server_beta2=0.0).chain
    assert zero == (favano.adam(beta2=0.0),)
