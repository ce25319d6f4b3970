"""Clients that multiply what they send: loop, lanes and products agree, and only the server is met.

The schedules are made by hand from planned ones.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from favano.aggregation import Aggregator
from favano.aggregation.snapshot import beginning_digest
from favano.engine import Engine, PlainLoop
from favano.methods import our_methods
from favano.methods.fedavg import FedAvg
from favano.methods.quafl import Quafl
from favano.quantisation import MinMax
from favano.schedule import Schedule, Timeline
from favano.timing import Deterministic, client_speeds
from favano.training import one_thread
from favano.types import Ints
from tests.engine.networks import (
    Problem,
    check_on_stacks,
    same,
    seen_of,
    shuffled,
)
from tests.methods.bound import bound, scheduled
from tests.problems import Linear, make_aggregator, start_model

# The schedule of AsyncFedED grows with its run, so that it cannot be made by hand.
METHODS = sorted(our_methods().keys() - {"asyncfeded"})


def scaled(case: Problem, scale: float, every: int = 3) -> Problem:
    """The same run, in which every so many-th job is poisoned."""
    values = np.ones(len(case.schedule.client))
    values[::every] = scale
    case.schedule = replace(case.schedule, scale=values)
    case.planned = replace(case.planned, schedule=case.schedule)
    return case


@pytest.mark.quick("scaffold")
@pytest.mark.parametrize("name", METHODS)
def test_lanes_and_products_equal_the_plain_loop(name: str) -> None:
    """Beside a run without poison; FedBuff's are products."""
    problems = [scaled(Problem(name, 0), -2.5), Problem(name, 1)]
    engine = Engine([case.aggregator() for case in problems], shuffled(problems, 3))
    with one_thread():
        by_run = seen_of(engine.events(at_once=2), 2)
    for moments, expected in zip(by_run, problems, strict=True):
        same(moments, expected.alone)
    check_on_stacks(problems, 4, 2)
    untouched = Problem(name, 0).alone
    assert not torch.allclose(untouched[-1].server, problems[0].alone[-1].server)


def test_in_a_schedule_that_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its policy sees lengths of client updates as they are sent; weights go by distances."""
    whole, sent = Timeline._schedule, Aggregator._meets_poison

    def poisoned(timeline: Timeline, rows: slice | Ints, *, check: bool = True) -> Schedule:
        schedule = whole(timeline, rows, check=check)
        return replace(schedule, scale=np.where(schedule.client == 2, -2.5, 1.0), check=check)

    untouched = Problem("asyncfeded", 0).alone
    monkeypatch.setattr(Timeline, "_schedule", poisoned)
    assert not sent(Problem("asyncfeded", 0).aggregator())
    monkeypatch.setattr(Aggregator, "_meets_poison", lambda run: True)
    case = Problem("asyncfeded", 0)
    check_on_stacks([case], 4, 1)
    assert not torch.allclose(untouched[-1].server, case.alone[-1].server)


@pytest.mark.quick("local buffers")
@pytest.mark.parametrize(
    "case",
    [
        Problem("quafl", 2, codec=MinMax(bits=5)),
        Problem("favano", 3, buffers="local"),
        Problem("fedavg", 6, server=["median", "momentum:0.9:0.5"]),
    ],
    ids=["codec", "local buffers", "server chain"],
)
def test_with_all_that_a_run_may_have(case: Problem) -> None:
    check_on_stacks([scaled(case, 4.0)], 4, 1)


def test_what_overflows_on_its_way_is_refused() -> None:
    """The clients' own models are finite; the loop and the engine refuse the same updates."""
    case = scaled(Problem("fedbuff", 2, poisoned=True), np.inf)
    check_on_stacks([case], 3, 1)
    refused = [client for moment in case.alone for client in moment.refused]
    without = [client for moment in Problem("fedbuff", 2, poisoned=True).alone
               for client in moment.refused]  # fmt: skip
    assert len(refused) > len(without) > 0
    assert case.alone[-1].server.isfinite().all()


def test_the_server_averages_multiplied_changes_by_hand() -> None:
    """Steps of 1 to 3 in each direction, at rate 0.1; the change of the second client counts -5."""
    fleet = client_speeds(np.array([1.0, 1.0, 1.0]), Deterministic())
    method = bound(FedAvg(), fleet, 1, selected=3)
    schedule = scheduled(method, 10)
    slope = torch.tensor([[1.0], [2.0], [3.0]], dtype=torch.float64).expand(3, 4)
    scale = np.where(schedule.client == 1, -5.0, 1.0)
    run = make_aggregator(method, replace(schedule, scale=scale), start_model())
    _, first, *_ = PlainLoop(run, Linear(slope)).events()
    expected = start_model() - 0.1 * (1.0 - 5 * 2.0 + 3.0) / 3
    torch.testing.assert_close(first.server, expected, rtol=0, atol=1e-12)


def test_clients_go_on_from_their_true_models() -> None:
    """QuAFL's clients average the server model before the tick with their own end models."""
    fleet = client_speeds(np.array([1.0, 1.0]), Deterministic())
    method = bound(Quafl(), fleet, 1, selected=2)
    schedule = scheduled(method, 30)
    slope = torch.tensor([[1.0], [2.0]], dtype=torch.float64).expand(2, 4)

    def held(factor: float) -> tuple[Tensor, Tensor]:
        plan = replace(schedule, scale=np.full(len(schedule.client), factor))
        events = PlainLoop(make_aggregator(method, plan, start_model()), Linear(slope)).events()
        next(events)
        event = next(events)
        return event.server.clone(), event.clients.of(np.arange(2))

    server, own = held(1.0)
    poisoned, own_too = held(7.0)
    assert not torch.allclose(server, poisoned)
    torch.testing.assert_close(own, own_too)


def test_scales_of_one_are_no_poison() -> None:
    """Products are used as before, and nothing changes to the bit."""
    case = Problem("favano", 1)
    quiet = scaled(Problem("favano", 1), 1.0)
    assert case.aggregator().linear
    assert quiet.aggregator().linear
    assert not scaled(Problem("favano", 1), 2.0).aggregator().linear
    same(quiet.alone, case.alone)


def test_a_snapshot_is_not_taken_over_by_a_run_with_other_poison() -> None:
    """What was poisoned before it is a part of how a run began."""
    case = Problem("fedavg", 6)
    plain = beginning_digest(case.aggregator().timeline, np.ones(len(case.schedule.client)), 2)
    digests = {plain}
    for scale in (2.0, 3.0):
        run = scaled(Problem("fedavg", 6), scale).aggregator()
        digests.add(beginning_digest(run.timeline, np.ones(len(case.schedule.client)), 2))
    assert len(digests) == 3
