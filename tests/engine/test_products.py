"""The weights of an update are those the method itself shows, whether asked again or known."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import pytest
import torch

from favano.aggregation.aggregator import keeps_one_model
from favano.engine.products import AggregationWeights, WeightCache, new_own, unit_updates
from favano.methods import AnyMethod, ClientUpdates, Method, ModelState, State, our_methods
from favano.methods.arrays import with_rows, zeros
from favano.policies import Rounds
from favano.training import Layout
from favano.types import Stack, Vector
from tests.engine.networks import Problem
from tests.methods.bound import any_method
from tests.methods.bound import bound as bound_to
from tests.specs import bound

METHODS = {name: bound(algorithm=name) for name in our_methods()}
BLENDS = [name for name, method in METHODS.items() if method.linear and keeps_one_model(method)]


def test_all_methods_but_two_blend_models() -> None:
    """The others correct gradients, or have weights that depend on distances."""
    assert set(our_methods()) - set(BLENDS) == {"scaffold", "asyncfeded"}
    assert METHODS["asyncfeded"].distances
    assert keeps_one_model(METHODS["asyncfeded"])


class Remembered(NamedTuple):
    """The server model, and the last answer of every client."""

    model: Vector
    last: Stack


class LastAnswers(Method[Remembered]):
    """The mean of what all clients sent last: linear, but the server remembers more models."""

    linear = True

    def policy(self) -> Rounds:
        return self.context.rounds()

    def init(self, model: Vector) -> Remembered:
        return Remembered(model, zeros(model, self.context.clients))

    def aggregate(self, state: Remembered, updates: ClientUpdates) -> Remembered:
        last = with_rows(state.last, updates.client, updates.end)
        return Remembered(last.mean(0), last)


class Clipped(Method[ModelState]):
    """The server model never has a number below zero: not linear."""

    def policy(self) -> Rounds:
        return self.context.rounds()

    def aggregate(self, state: ModelState, updates: ClientUpdates) -> ModelState:
        return ModelState(updates.end.mean(0).clamp(min=0))


def test_more_remembered_models_or_no_linearity_are_no_blend() -> None:
    assert not keeps_one_model(any_method(bound_to(LastAnswers())))
    assert not keeps_one_model(any_method(bound_to(Clipped())))


def abouts(problem: Problem) -> Iterator[ClientUpdates]:
    """What the server knows at each update."""
    plan = problem.schedule
    for version in range(plan.updates):
        jobs = slice(*plan.offsets[version : version + 2])
        staleness = version - 1 - plan.start_version[jobs]
        rate = np.full(len(staleness), 0.1)
        if len(staleness):
            yield unit_updates(plan.client[jobs], plan.steps[jobs], staleness, rate, version)


@pytest.mark.parametrize("name", BLENDS)
def test_a_weighted_sum_is_the_update(name: str) -> None:
    """Along a whole run, on random models in float64."""
    problem = Problem(name, 0)
    method, generator = problem.method, torch.Generator().manual_seed(0)
    weigh, state = WeightCache(method, with_buffers=True), problem.aggregator().state
    reference = state
    for about in abouts(problem):
        k = len(about.client)
        models = torch.randn(1 + 2 * k, 5, generator=generator, dtype=torch.float64)
        server, start, end = models[0], models[1 : 1 + k], models[1 + k :]
        updates = replace(about, start=start, end=end)
        reference = method.aggregate(reference._replace(model=server), updates)
        state, weights = weigh(state, about)
        assert torch.allclose(
            torch.from_numpy(weights.server) @ models, reference.model, rtol=1e-12
        )
        assert weights.buffers is not None
        averaged = method.aggregate_buffers(server, end, updates)
        assert torch.allclose(torch.from_numpy(weights.buffers) @ models, averaged, rtol=1e-12)
        own = method.next_client_model(server, end)
        assert (own is None) == (weights.own is None)
        if own is not None and weights.own is not None:
            assert torch.allclose(torch.from_numpy(weights.own.copy()) @ models, own, rtol=1e-12)


@dataclass
class Counting:
    """A method that notes how often it is asked."""

    method: AnyMethod
    asked: list[int] = field(default_factory=list)

    def aggregate(self, state: State, updates: ClientUpdates) -> State:
        self.asked.append(len(updates.end))
        return self.method.aggregate(state, updates)

    def __getattr__(self, name: str) -> object:
        return getattr(self.method, name)


@pytest.mark.parametrize(("name", "once"), [("quafl", True), ("favano", False), ("fedbuff", False)])
def test_a_method_is_asked_once_where_the_answers_do_not_matter(name: str, once: bool) -> None:
    problem = Problem(name, 0)
    counting = Counting(problem.method)
    weigh, state = WeightCache(counting, with_buffers=False), problem.aggregator().state  # type: ignore[arg-type]
    told = list(abouts(problem))
    for about in told:
        state, _ = weigh(state, about)
    assert len({len(about.client) for about in told}) == 1 < len(told)
    assert len(counting.asked) == (1 if once else len(told))


@pytest.mark.parametrize("name", ["asyncsgd-adaptive", "asyncsgd"])
def test_single_answers_with_the_same_numbers_are_weighed_once(name: str) -> None:
    problem = Problem(name, 0)
    counting = Counting(problem.method)
    weigh, state = WeightCache(counting, with_buffers=True), problem.aggregator().state  # type: ignore[arg-type]
    told = list(abouts(problem))
    delays = {int(about.staleness[0]) for about in told}
    for about in told:
        _, weights = weigh(state, about)
        _, expected = WeightCache(problem.method, with_buffers=True)(state, about)
        assert weights.server.tolist() == expected.server.tolist()
    assert 1 < len(delays) <= len(counting.asked) <= 1 + len(delays) < len(told)


def test_an_update_that_reads_more_than_those_before_it() -> None:
    """It reads steps only of late answers, so weights must not be taken from others by then."""

    @dataclass
    class Late:
        """A method that reads one thing or two."""

        def aggregate(self, state: ModelState, updates: ClientUpdates) -> ModelState:
            late = updates.staleness[0] > 2
            factor = float(updates.steps[0]) if late else 1.0
            return ModelState(state.model + factor * updates.end.sum(0))

        def next_client_model(self, server: Stack, end: Stack) -> None:
            return None

    weigh, state = WeightCache(Late(), with_buffers=False), ModelState(torch.zeros(3))  # type: ignore[arg-type]
    given = [(0, 7), (0, 5), (1, 4), (5, 4), (5, 4), (5, 9), (0, 9), (5, 9), (0, 7)]
    for version, (delay, steps) in enumerate(given):
        client, made, late = (np.array([number]) for number in (0, steps, delay))
        about = unit_updates(client, made, late, np.ones(1), version)
        _, weights = weigh(state, about)
        assert weights.server.tolist() == [1.0, 0.0, steps if delay > 2 else 1.0]


def test_updates_of_equal_weights_share_a_product() -> None:
    problems = [Problem("quafl", seed) for seed in (0, 1)]
    blends: list[AggregationWeights] = []
    for problem in problems:
        weigh = WeightCache(problem.method, with_buffers=False)
        blends.append(weigh(problem.aggregator().state, next(abouts(problem)))[1])
    weights = blends[0].own
    assert weights is not None
    assert weights is blends[1].own
    other = blends[0]._replace(own=2 * weights)
    models = torch.randn(4, len(blends[0].server), 6, dtype=torch.float64)
    given = [blends[0], other, blends[0]._replace(own=None), blends[1]]
    parts = new_own(models, given, Layout(parameters=4, buffers=2, counters=0))
    assert [rows.tolist() for rows, _ in parts] == [[0, 3], [1]]
    own = torch.from_numpy(weights.copy())
    assert torch.allclose(parts[0][1], torch.cat([own @ models[0], own @ models[3]]), rtol=1e-12)
    assert torch.allclose(parts[1][1], 2 * own @ models[1], rtol=1e-12)


def test_clients_go_on_with_the_largest_counter() -> None:
    """Of the server's and their own: a counter is never a fraction."""
    problem = Problem("quafl", 0)
    about = next(abouts(problem))
    _, blend = WeightCache(problem.method, with_buffers=True)(problem.aggregator().state, about)
    k = len(about.client)
    models = torch.randn(1, 1 + 2 * k, 3, dtype=torch.float64)
    models[0, :, 2] = torch.arange(1 + 2 * k)
    models[0, 0, 2] = 5
    ((_, own),) = new_own(models, [blend], Layout(parameters=1, buffers=1, counters=1))
    assert own[:, 2].tolist() == [max(5, 1 + k + row) for row in range(k)]
    assert blend.own is not None
    assert torch.allclose(own[:, :2], torch.from_numpy(blend.own.copy()) @ models[0, :, :2])
