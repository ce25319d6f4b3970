"""Answers with NaN or infinity are left out: what their clients go on from."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from favano.aggregation import Aggregator, Link
from favano.engine import Engine, PlainLoop, ServerVersion
from favano.methods import AnyMethod, State
from favano.methods.favano import Favano
from favano.methods.quafl import Quafl
from favano.methods.weights import KnownSteps
from favano.quantisation import Codec
from favano.training import Layout, Work, one_thread
from favano.types import Buffers, Stack, Vector
from tests.aggregation.test_link import COARSE, SEED, SIZES, label
from tests.engine.networks import Problem, same, seen, seen_of, shuffled, stack_lanes
from tests.methods.bound import any_method, bound, scheduled, weighed
from tests.problems import quadratics, start_model

METHODS = pytest.mark.parametrize("name", ["quafl", "favano", "fedbuff"])
LOOP = pytest.mark.parametrize("loop", [True, False], ids=["loop", "lanes"])


class Refusal:
    """A run in which the second answer of one client, and no other, cannot be used."""

    def __init__(self, name: str, buffers: Buffers = "average") -> None:
        self.problem = Problem(name, buffers=buffers)
        plan = self.problem.schedule
        updates = [
            jobs[plan.steps[jobs] > 0]
            for client in range(plan.clients)
            if len(jobs := np.flatnonzero(plan.client[: plan.jobs] == client)) > 2
        ]
        self.job = int(next(jobs for jobs in updates if len(jobs) > 2)[1])
        self.client, self.version = (
            plan.client[self.job : self.job + 1],
            int(plan.used_by[self.job]),
        )

    def aggregator(self) -> Aggregator[State]:
        aggregator = self.problem.aggregator()
        aggregator.non_finite = "skip"
        aggregator.rates[self.job] = np.inf
        return aggregator

    def moments(self, run: Aggregator[State], *, loop: bool) -> Iterator[ServerVersion]:
        """By the plain loop, or on lanes."""
        with one_thread():
            if loop:
                yield from PlainLoop(run, self.problem.trainer).events()
            else:
                for step in Engine([run], shuffled([self.problem], 7)).events(at_once=1):
                    assert isinstance(step.event, ServerVersion)
                    yield step.event


@METHODS
@LOOP
def test_a_refused_client_goes_on_from_the_new_server_model(name: str, loop: bool) -> None:
    """A QuAFL client too: the model it kept for itself before is not taken up again."""
    refusal = Refusal(name)
    before = None
    for event in refusal.moments(refusal.aggregator(), loop=loop):
        refused = refusal.client.tolist() if event.version == refusal.version else []
        assert event.refused.tolist() == refused
        (held,) = event.clients.of(refusal.client)
        if refused:
            assert before is not None
            assert not torch.equal(before, held)
            assert torch.equal(held, event.server)
        before = held.clone()


@METHODS
@LOOP
def test_its_own_buffers_stay_as_they_were(name: str, loop: bool) -> None:
    refusal = Refusal(name, "local")
    run, parameters = refusal.aggregator(), refusal.problem.flat.layout.parameters
    buffers: list[Vector] = []
    for event in refusal.moments(run, loop=loop):
        (start,) = run.memory.starts(refusal.client, event.clients.of(refusal.client))
        buffers.append(start[parameters:].clone())
        if event.version == refusal.version:
            assert event.refused.tolist() == refusal.client.tolist()
            assert torch.equal(buffers[-1], buffers[-2])
            assert not torch.equal(buffers[-1], event.server[parameters:])


@pytest.mark.quick("fedbuff")
@METHODS
def test_lanes_leave_it_out_as_the_plain_loop_does(name: str) -> None:
    refusal = Refusal(name)
    expected = [seen(event) for event in refusal.moments(refusal.aggregator(), loop=True)]
    same(
        [seen(event) for event in refusal.moments(refusal.aggregator(), loop=False)],
        expected,
    )
    stacks = Engine([refusal.aggregator()], stack_lanes([refusal.problem], 7), products=True)
    (moments,) = seen_of(stacks.events(at_once=1), 1)
    same(moments, expected, 1e-10)


class Poisoned:
    """Client 2 sends NaN once in a while."""

    def train(self, start: Stack, work: Work) -> Stack:
        end = quadratics(10).train(start, work)
        end[torch.from_numpy((work.client == 2) & (work.first_step % 3 == 1))] = torch.nan
        return end


@pytest.mark.parametrize("codec", COARSE, ids=label)
@pytest.mark.parametrize(
    "method",
    [
        any_method(bound(Quafl(), 10, 5, selected=3)),
        any_method(
            weighed(bound(Favano(), 10, 5, selected=3), KnownSteps(np.ones(10), np.ones(10)))
        ),
    ],
    ids=["quafl", "favano"],
)
def test_behind_a_codec_the_server_stays_finite(method: AnyMethod, codec: Codec) -> None:
    schedule = scheduled(method, 300)
    layout = Layout(parameters=4, buffers=0, counters=0)
    link = Link(codec, SIZES, schedule, seed=SEED, streams=np.arange(10))
    rates = np.full(len(schedule.client), 0.1)
    aggregator = Aggregator(
        method, schedule, layout, rates, start_model(), non_finite="skip", link=link
    )
    moments = list(PlainLoop(aggregator, Poisoned()).events())
    assert sum(len(event.refused) for event in moments) > 1
    assert all(bool(event.server.isfinite().all()) for event in moments)
