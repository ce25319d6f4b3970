"""Theorem 1: units, order of its forms, and a simulated run with known constants."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np
import pytest
import torch
from hypothesis import given

from favano.engine import PlainLoop
from favano.errors import BadInput
from favano.methods.favano import Favano
from favano.policies import Polling
from favano.schedule import plan
from favano.theory import (
    Rule,
    TheoryProblem,
    TheorySetting,
    bound_assembled,
    bound_full,
    bound_short,
    descent,
    full_expansion,
    largest_rate,
    next_potential,
    printed_expansion,
    setting,
)
from favano.timing import two_speeds
from favano.training import Work
from favano.types import Stack
from tests.methods.bound import bound as bound_to
from tests.problems import make_aggregator
from tests.theory.units import PROBLEMS, SETTINGS, has_unit

SIGMA = 0.5


@dataclass(frozen=True, eq=False)
class NoisyQuadratics:
    """f_i(x) = ||x - c_i||^2 / 2, with gradients of variance sigma^2: L = 1, B = 1."""

    centre: torch.Tensor  # (n, P)
    noise: torch.Generator

    def train(self, start: Stack, work: Work) -> Stack:
        end = start.clone()
        rate = torch.from_numpy(work.rate)[:, None]
        for step in range(int(work.steps.max(initial=0))):
            drawn = torch.randn(end.shape, generator=self.noise, dtype=end.dtype)
            gradient = end - self.centre[torch.from_numpy(work.client)]
            gradient += SIGMA / np.sqrt(end.shape[1]) * drawn
            end -= torch.from_numpy(work.steps > step)[:, None] * rate * gradient
        return end


@pytest.mark.quick("3.0-deterministic")
@pytest.mark.parametrize("rule", ["stochastic", "deterministic"])
@pytest.mark.parametrize("away", [3.0, 0.0])
def test_every_bound_holds_along_a_run_and_the_assembled_one_is_smallest(
    away: float, rule: Rule
) -> None:
    """30 clients on the real schedule, at the largest learning rate that is allowed.

    From far away the first term of the bound counts; from the minimum, where F = 0, the others.
    """
    fleet, policy = two_speeds(30, seed=4), Polling(selected=6, local_steps=6)
    schedule = plan(policy, fleet, horizon=7 * 1500, seed=4)
    generator = torch.Generator().manual_seed(5)
    centre = torch.randn(30, 4, generator=generator, dtype=torch.float64)
    middle = centre.mean(dim=0)
    initial = middle + away
    problem = TheoryProblem(
        smoothness=1.0,
        noise=SIGMA,
        dissimilarity=float((centre - middle).square().sum(dim=1).mean().sqrt()),
        growth=1.0,
        gap=float((initial - middle).square().sum()) / 2,
    )
    where = setting(policy, fleet, rule, "rigorous")
    rate = largest_rate(where, problem)
    method = bound_to(Favano(reweight=rule), fleet, 6, selected=6)
    assert method.policy() == policy
    aggregator = make_aggregator(method, schedule, initial, rate)
    total, phi_bound, rounds = 0.0, 0.0, 0
    for event in PlainLoop(aggregator, NoisyQuadratics(centre, generator)).events():
        spread = event.clients.spread(event.server)
        gradient = float((spread.mean - middle).square().sum())  # of f at mu_t
        assert float(spread.distances[1]) <= phi_bound + 1e-12
        phi_bound = next_potential(where, problem, rate, potential=phi_bound, gradient=gradient)
        if rounds:
            bounds = {
                "short": bound_short(where, problem, rate, rounds),
                "full": bound_full(where, problem, rate, rounds),
                "assembled": bound_assembled(where, problem, rate, rounds),
            }
            assert all(total / rounds <= bound for bound in bounds.values())
            assert min(bounds, key=lambda name: bounds[name]) == "assembled"
        total, rounds = total + gradient, rounds + 1
    assert rounds == 1501
    assert 0 < total / rounds <= 0.9 * 2 * problem.gap or away == 0  # it did descend


@given(where=SETTINGS, problem=PROBLEMS)
def test_units_and_order(where: TheorySetting, problem: TheoryProblem) -> None:
    rate, rounds = largest_rate(where, problem), 500
    for bound in (bound_short, bound_full, bound_assembled):
        assert has_unit(
            lambda p, eta, target, bound=bound: bound(where, p, eta, rounds),  # type: ignore[misc]
            problem, f=2, x=-2, rate=rate / 2,
        )  # fmt: skip
    full = bound_full(where, problem, rate, rounds)
    assert bound_assembled(where, problem, rate, rounds) <= full
    assert bound_short(where, problem, rate, rounds) < full
    assert bound_full(where, problem, rate, 2 * rounds) < full


@given(where=SETTINGS, problem=PROBLEMS)
def test_units_of_the_constants(where: TheorySetting, problem: TheoryProblem) -> None:
    rate = largest_rate(where, problem) / 2
    for name, f, x in (("c1", 1, -2), ("c2", -1, 2), ("c3", 1, 0), ("d1", -2, 4), ("d2", 0, 2)):
        assert has_unit(
            lambda p, eta, target, name=name: getattr(descent(where, p, eta), name),  # type: ignore[misc]
            problem, f=f, x=x, rate=rate,
        )  # fmt: skip


def test_what_the_statement_leaves_out() -> None:
    """The K^2 terms, and 2 * 2880 - 5600 = 160."""
    where = TheorySetting(clients=100, selected=20, local_steps=20, mean_a=0.34, b=1.35)
    problem = TheoryProblem(smoothness=2.0, noise=0.7, dissimilarity=1.3)
    missing = full_expansion(where, problem).quadratic - printed_expansion(where, problem).quadratic
    steps = 8 * 4 * 400 * (0.49 + 4 * 1.69)
    assert missing == pytest.approx(steps + 160 * 1.35 * 4 * 400 * 1.69)


def test_nothing_is_known_outside_the_proof() -> None:
    where = TheorySetting(clients=30, selected=6, local_steps=6, mean_a=0.4, b=1.3)
    assert bound_assembled(where, TheoryProblem(), 1.001 / (4 * 36), 1000) == inf
    assert bound_assembled(where, TheoryProblem(), 0.5, 1000) == inf
    assert bound_assembled(where, TheoryProblem(), 1e-3, 1000) < inf


def test_bad_input_is_refused_by_name() -> None:
    where = TheorySetting(clients=30, selected=6, local_steps=6, mean_a=0.4, b=1.3)
    with pytest.raises(BadInput, match="learning_rate=0: need a finite positive number"):
        bound_full(where, TheoryProblem(), 0, 10)
    with pytest.raises(BadInput, match=r"^rounds=0: need 1\.\.1e30$"):
        bound_assembled(where, TheoryProblem(), 0.001, 0)
