"""Aggregator: refused updates, memory of versions, and models that clients keep."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from favano.aggregation import Aggregator, ClientMemory, ServerChain
from favano.engine import PlainLoop
from favano.errors import BadInput, NonFiniteUpdate
from favano.methods import AnyMethod, ModelState, our_methods
from favano.methods.asofed import AsoFed
from favano.methods.favano import Favano
from favano.methods.fedavg import FedAvg
from favano.methods.fedbuff import FedBuff
from favano.methods.quafl import Quafl
from favano.methods.weights import KnownSteps
from favano.schedule import Schedule
from favano.training import Layout, Work
from favano.transforms import as_transform
from favano.types import NonFinite, Stack, Vector
from tests.engine.networks import Problem, same
from tests.methods.bound import any_method, bound, scheduled, weighed
from tests.problems import make_aggregator, quadratics, start_model


class Poisoned:
    """Client 3 sends NaN from a certain step of its stream on."""

    def __init__(self) -> None:
        self.trainer = quadratics(10)

    def train(self, start: Stack, work: Work) -> Stack:
        end = self.trainer.train(start, work)
        end[torch.from_numpy((work.client == 3) & (work.first_step >= 4))] = torch.nan
        return end


def run_of(
    method: AnyMethod, schedule: Schedule, non_finite: NonFinite
) -> tuple[list[torch.Tensor], list[list[int]]]:
    initial = start_model()
    rates = np.full(len(schedule.client), 0.1)
    layout = Layout(parameters=4, buffers=0, counters=0)
    aggregator = Aggregator(method, schedule, layout, rates, initial, non_finite=non_finite)
    moments = list(PlainLoop(aggregator, Poisoned()).events())
    return [m.server for m in moments], [m.refused.tolist() for m in moments]


METHODS = [
    any_method(weighed(bound(Favano(), 10, 5, selected=4), KnownSteps(np.ones(10), np.ones(10)))),
    any_method(bound(Quafl(), 10, 5, selected=4)),
]


@pytest.mark.parametrize("method", METHODS, ids=["favano", "quafl"])
def test_nan_stops_the_run_and_names_the_client(method: AnyMethod) -> None:
    schedule = scheduled(method, 300)
    late = (schedule.client == 3) & (schedule.first_step >= 4)
    update = int(schedule.used_by[late].min()) + 1
    with pytest.raises(
        NonFiniteUpdate, match=f"client 3: the update for server step {update}, at time "
    ):
        run_of(method, schedule, "stop")


@pytest.mark.parametrize("method", METHODS, ids=["favano", "quafl"])
def test_nan_can_be_skipped(method: AnyMethod) -> None:
    schedule = scheduled(method, 300)
    servers, refused = run_of(method, schedule, "skip")
    assert all(bool(torch.isfinite(server).all()) for server in servers)
    late = (
        (schedule.client == 3) & (schedule.first_step >= 4) & (schedule.used_by < schedule.updates)
    )
    assert [client for clients in refused for client in clients] == [3] * int(late.sum())
    assert late.sum() > 1


def used_late() -> Schedule:
    """Clients go on before their answer is used."""
    return scheduled(bound(FedBuff(buffer=3, buffer_mode="code"), 10), 300)


def test_a_memory_needs_answers_that_are_used_before_their_client_goes_on() -> None:
    """Otherwise a job would begin with a memory that its client does not have yet."""
    method, schedule = bound(AsoFed(), 10), used_late()
    with pytest.raises(
        BadInput, match=r"method=asofed: has clients with a memory, which must not continue"
    ):
        make_aggregator(method, schedule, start_model())
    make_aggregator(bound(FedAvg(), 10), schedule, start_model())
    make_aggregator(method, scheduled(method, 300), start_model())


def test_so_does_an_optimiser_that_is_kept() -> None:
    method, schedule = bound(FedBuff(buffer=3, buffer_mode="code"), 10), used_late()
    layout, rates = Layout(parameters=4, buffers=0, counters=0), np.ones(len(schedule.client))
    rule = "optimiser_state=kept: need fresh with fedbuff, whose clients go on before"
    with pytest.raises(BadInput, match=rule):
        Aggregator(
            method,
            schedule,
            layout,
            rates,
            start_model(),
            memory=ClientMemory(method, layout, kept=1),
        )
    Aggregator(method, schedule, layout, rates, start_model())


def test_an_update_that_failed_leaves_the_servers_optimiser(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is made again when there is memory; the momentum must not have moved."""
    method, average = bound(FedAvg(), 4), FedAvg.aggregate_buffers
    schedule, layout = scheduled(method, 300), Layout(parameters=3, buffers=1, counters=0)
    server = ServerChain(method, [as_transform("momentum")])
    rates = np.ones(len(schedule.client))

    def run() -> Aggregator[ModelState]:
        return Aggregator(method, schedule, layout, rates, start_model(), server=server)

    def made(aggregator: Aggregator[ModelState]) -> Vector:
        start = start_model().repeat(2, 1)
        return aggregator.update(start[0], start, start + 1.0, np.ones(2, dtype=np.bool_)).server

    def failing(*given: object) -> Vector:
        raise torch.cuda.OutOfMemoryError

    whole, tried = run(), run()
    for _ in range(2):
        monkeypatch.setattr(FedAvg, "aggregate_buffers", failing)
        with pytest.raises(torch.cuda.OutOfMemoryError):
            made(tried)
        monkeypatch.setattr(FedAvg, "aggregate_buffers", average)
        assert torch.equal(made(tried), made(whole))


class Remembers:
    """Adds one to the model of every client, and two to each number of its memory."""

    def train(self, start: Stack, work: Work) -> Stack:
        made = torch.tensor([1.0, 2.0, 2.0], dtype=torch.float64).repeat_interleave(4)
        end = start + made
        end[torch.from_numpy((work.client == 3) & (start[:, 4].numpy() == 4)), :4] = torch.nan
        return end


def test_a_client_whose_answer_is_refused_forgets() -> None:
    """Client 3 is refused whenever it remembers two jobs; then it begins with zeros again."""
    method = bound(AsoFed(), 10)
    schedule = scheduled(method, 900)
    layout = Layout(parameters=4, buffers=0, counters=0)
    rates = np.ones(len(schedule.client))
    aggregator = Aggregator(method, schedule, layout, rates, start_model(), non_finite="skip")
    done: dict[int, int] = {}
    refused = 0
    for event in PlainLoop(aggregator, Remembers()).events():
        if event.version < 0:
            continue
        who = schedule.client[aggregator.timeline.jobs(event.version)]
        client = int(who[0])
        refused += len(event.refused)
        done[client] = 0 if len(event.refused) else done.get(client, 0) + 1
        expected = torch.full((8,), 2.0 * done[client], dtype=torch.float64)
        (start,) = aggregator.memory.starts(who, event.clients.of(who))
        assert torch.equal(start[4:], expected)
        assert bool(event.server.isfinite().all())
        assert event.server.shape == (4,)
    assert refused > 1
    assert max(done.values()) > 3


def test_of_counters_the_largest_wins_the_servers_included() -> None:
    """The server has heard of 9 batches, the clients of 4 and 2; parameter, buffer, counter."""
    method = bound(Favano(reweight="none"), 2, 1)
    schedule = scheduled(method, 7)
    layout = Layout(parameters=1, buffers=1, counters=1)
    initial = torch.tensor([0.0, 2.0, 9.0], dtype=torch.float64)
    aggregator = Aggregator(method, schedule, layout, np.ones(len(schedule.client)), initial)
    end = torch.tensor([[3.0, 3.0, 4.0], [6.0, 10.0, 2.0]], dtype=torch.float64)
    update = aggregator.update(initial, initial.repeat(2, 1), end, np.array([True, True]))
    assert update.server.tolist() == [3.0, 5.0, 9.0]
    assert update.own is None
    assert aggregator.over


@pytest.mark.quick("favano-delta", "scaffold")
@pytest.mark.parametrize("name", list(our_methods()))
def test_pieces_of_a_large_model_add_up_to_the_whole(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a method does to a parameter does not depend on those beside it."""
    whole = Problem(name, 1).alone
    monkeypatch.setattr("favano.aggregation.aggregator._PIECE", 7)
    same(Problem(name, 1).alone, whole, 1e-12)


def test_an_optimiser_that_is_kept_counts_the_steps_of_all_jobs() -> None:
    method = bound(FedAvg(), 10)
    schedule, layout = scheduled(method, 300), Layout(parameters=4, buffers=0, counters=0)
    rates = np.ones(len(schedule.client))
    run = Aggregator(
        method, schedule, layout, rates, start_model(), memory=ClientMemory(method, layout, kept=1)
    )
    for steps in (5, 3):
        run.memory.remember(2, start_model(), steps)
    run.memory.remember(1, start_model(), 4)
    before = run.memory.steps_before(np.array([2, 0, 1]))
    assert before is not None
    assert before.tolist() == [8, 0, 4]
    run.memory.remember(2, None, 6)
    before = run.memory.steps_before(np.array([2, 1]))
    assert before is not None
    assert before.tolist() == [0, 4]
