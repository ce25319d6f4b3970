"""The server's optimiser: numbers by hand, its reductions, and methods that have no step."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from favano.aggregation import Aggregator
from favano.engine import PlainLoop
from favano.errors import BadInput
from favano.methods import Method, our_methods
from favano.methods.fedavg import FedAvg
from favano.methods.fedfix import FedFix
from favano.methods.method import S
from favano.methods.server_optimiser import (
    Moments,
    ServerOptimiser,
    ServerOptimiserName,
    ServerOptions,
    check_step,
)
from favano.training import Layout
from tests.methods.bound import bound, scheduled
from tests.problems import close, quadratics, start_model

AVERAGING = {"favano", "quafl", "fedasync", "aafl"}


def vector(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def walked(optimiser: ServerOptimiser, *steps: float) -> list[float]:
    """The models of a server that starts at 1, given the steps of the method."""
    model, moments, values = vector(1.0), None, []
    for step in steps:
        model, moments = optimiser.step(model, model + step, moments)
        values.append(float(model))
    return values


def test_momentum_by_hand() -> None:
    """m = 2, then 0.5 * 2 - 1 = 0, then 0.5 * 0 + 1 = 1."""
    values = walked(ServerOptimiser("momentum", rate=0.1, momentum=0.5), 2.0, -1.0, 1.0)
    assert values == pytest.approx([1.2, 1.2, 1.3])


def test_momentum_is_that_of_torch() -> None:
    optimiser = ServerOptimiser("momentum", rate=0.3, momentum=0.9)
    parameter = torch.nn.Parameter(vector(1.0, -2.0))
    theirs = torch.optim.SGD([parameter], lr=0.3, momentum=0.9)
    model, moments = parameter.detach().clone(), None
    for step in (vector(1.0, 2.0), vector(-3.0, 0.5), vector(0.1, 0.2)):
        parameter.grad = -step
        theirs.step()
        model, moments = optimiser.step(model, model + step, moments)
        assert close(model, parameter.detach())


@pytest.mark.parametrize(
    ("name", "squares"),
    [
        ("adagrad", [0.25 + 4, 0.25 + 4 + 1]),
        ("adam", [0.9 * 0.25 + 0.1 * 4, 0.9 * 0.625 + 0.1 * 1]),
        ("yogi", [0.25 + 0.1 * 4, 0.65 + 0.1 * 1]),
    ],
)
def test_squares_by_hand(name: ServerOptimiserName, squares: list[float]) -> None:
    """Steps 2 and -1, tau = 1/2: v begins with 1/4, m is 1 and then 1/2 * 1 - 1/2 * 1 = 0."""
    optimiser = ServerOptimiser(name, rate=0.1, momentum=0.5, epsilon=0.5, beta2=0.9)
    first = 1 + 0.1 * 1 / (squares[0] ** 0.5 + 0.5)
    assert walked(optimiser, 2.0, -1.0) == pytest.approx([first, first])
    _, moments = optimiser.step(vector(0.0), vector(2.0), None)
    _, moments = optimiser.step(vector(0.0), vector(-1.0), moments)
    assert float(moments.square) == pytest.approx(squares[1])


def test_yogi_shrinks_slowly() -> None:
    """By (1 - beta_2) D^2 at most, where Adam forgets a share of v."""
    before = Moments(vector(0.0), vector(9.0))
    yogi = ServerOptimiser("yogi", rate=0.1, momentum=0.0, epsilon=0.1, beta2=0.9)
    assert float(yogi.step(vector(0.0), vector(1.0), before)[1].square) == pytest.approx(8.9)


def models(method: Method[S], optimiser: ServerOptimiser | None) -> list[Tensor]:
    schedule, initial = scheduled(method, 300), start_model()
    layout, rates = Layout(parameters=4, buffers=0, counters=0), np.full(len(schedule.client), 0.1)
    run = Aggregator(method, schedule, layout, rates, initial, server=optimiser)
    return [event.server for event in PlainLoop(run, quadratics(8)).events()]


def test_without_momentum_and_with_rate_one_nothing_changes() -> None:
    method = bound(FedAvg(), 8)
    plain = models(method, None)
    same = models(method, ServerOptimiser("momentum", rate=1.0, momentum=0.0))
    assert len(plain) > 4
    assert all(close(a, b) for a, b in zip(plain, same, strict=True))


def test_the_rate_is_that_of_the_method() -> None:
    """A step of the server times 1/2 is a server learning rate of 1/2."""
    half = models(bound(FedAvg(server_learning_rate=0.5), 8), None)
    optimised = models(bound(FedAvg(), 8), ServerOptimiser("momentum", rate=0.5, momentum=0.0))
    assert all(close(a, b) for a, b in zip(half, optimised, strict=True))


def test_an_update_without_answers_makes_no_step() -> None:
    """Windows in which nobody is back, though the momentum is not zero."""
    method = bound(FedFix(window=2.0), 8)
    schedule = scheduled(method, 300)
    servers = models(method, ServerOptimiser("momentum", rate=1.0, momentum=0.9))
    empty = [v for v in range(schedule.updates) if not (schedule.used_by == v).any()]
    assert any(float((servers[v + 1] - servers[0]).norm()) > 0 for v in empty)
    assert all(torch.equal(servers[v], servers[v + 1]) for v in empty)


@pytest.mark.parametrize("name", list(our_methods()))
def test_methods_that_average_models_have_no_step(name: str) -> None:
    method = bound(our_methods()[name](), 8)
    adam = ServerOptions(server_optimiser="adam").optimiser
    assert adam is not None
    if name in AVERAGING:
        rule = f"server_optimiser=adam: need none with {name}, which averages models"
        with pytest.raises(BadInput, match=rule):
            check_step(method, adam)
    else:
        check_step(method, adam)


def test_usual_numbers_are_those_of_the_papers() -> None:
    assert ServerOptions().optimiser is None
    expected: dict[ServerOptimiserName, ServerOptimiser] = {
        "momentum": ServerOptimiser("momentum", 1.0, 0.9),
        "adagrad": ServerOptimiser("adagrad", 0.01, 0.0, 1e-3),
        "adam": ServerOptimiser("adam", 0.01, 0.9, 1e-3, 0.99),
        "yogi": ServerOptimiser("yogi", 0.01, 0.9, 1e-3, 0.99),
    }
    optimisers = {name: ServerOptions(server_optimiser=name).optimiser for name in expected}
    assert optimisers == expected
    zero = ServerOptions(server_optimiser="adam", server_beta2=0.0).optimiser
    assert zero is not None
    assert zero.beta2 == 0.0
