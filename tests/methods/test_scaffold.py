"""SCAFFOLD: c is the mean of the c_i (P12), FedAvg without variates, and no drift with them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from favano.aggregation import Aggregator
from favano.engine import PlainLoop, Recorder
from favano.methods import ClientUpdates, Method
from favano.methods.clock import ServerClock
from favano.methods.fedavg import FedAvg
from favano.methods.method import S
from favano.methods.scaffold import Scaffold, ScaffoldState
from favano.policies import Rounds
from favano.timing import two_speeds
from favano.training import Layout
from favano.types import Ints, Stack, Vector
from tests.methods.bound import M, bound, scheduled
from tests.problems import (
    Quadratics,
    answers_of,
    close,
    make_aggregator,
    quadratics,
    server_models,
    start_model,
)

CLIENTS = 9
HORIZON = 3000.0


def some(method: M) -> M:
    """Rounds of four clients."""
    return bound(method, two_speeds(CLIENTS, seed=1), 5, selected=4)


def everyone(method: M) -> M:
    """Rounds of all clients."""
    return bound(method, two_speeds(CLIENTS, seed=1), 5, selected=CLIENTS)


@pytest.mark.parametrize("deadline", [None, 9.0])
def test_rounds_by_hand(deadline: float | None) -> None:
    """Every formula written out, two of four clients in each round, also with jobs cut short."""
    clock = ServerClock(deadline=deadline, at_deadline="take" if deadline else "drop")
    method = bound(Scaffold(server_learning_rate=0.5), two_speeds(4, seed=1), clock=clock)
    schedule = scheduled(method, 300, seed=1)
    assert (len(set(schedule.steps[: schedule.jobs].tolist())) > 1) == (deadline is not None)
    trainer, x, eta = quadratics(4), start_model(), 0.1
    models = server_models(method, schedule, trainer, x)
    c, own = torch.zeros(4, dtype=torch.float64), torch.zeros(4, 4, dtype=torch.float64)
    assert schedule.updates > 2
    for version, after in enumerate(models[1:]):
        jobs = slice(schedule.offsets[version], schedule.offsets[version + 1])
        clients, steps = schedule.client[jobs].tolist(), schedule.steps[jobs].tolist()
        ends, fresh = [], []
        for i, made in zip(clients, steps, strict=True):
            y = x
            for _ in range(made):
                y = y - eta * (trainer.gradient(i, y) - own[i] + c)
            ends.append(y)
            fresh.append(own[i] - c + (x - y) / (made * eta))
        if not clients:
            assert torch.equal(after, x)
            continue
        changes = torch.stack(fresh) - own[clients]
        x = x + 0.5 * (torch.stack(ends) - x).mean(dim=0)
        c = c + changes.sum(dim=0) / 4
        own[clients] = torch.stack(fresh)
        assert close(after, x)


def test_p12_the_servers_variate_is_the_mean_of_the_clients() -> None:
    method, trainer = some(Scaffold()), quadratics(CLIENTS)
    schedule, state = scheduled(method, HORIZON, seed=1), method.init(start_model())
    for version in range(schedule.updates):
        client = schedule.client[schedule.offsets[version] : schedule.offsets[version + 1]]
        corrected = zip(client.tolist(), method.gradient_correction(state, client), strict=True)
        ends = [trainer.local(i, state.model, 5, 0.1, correction) for i, correction in corrected]
        start, end = state.model.expand(4, -1), torch.stack(ends)
        updates = answers_of(client.tolist(), [5] * 4, [0] * 4, start, end, rate=0.1)
        state = method.aggregate(state, updates)
        variates = torch.stack(list(state.variates.values()))
        assert close(state.control, variates.sum(dim=0) / CLIENTS)
    assert set(state.variates) == set(range(CLIENTS))
    assert float(variates.abs().max()) > 1.0


class Frozen(Method[ScaffoldState]):
    """SCAFFOLD whose variates stay 0."""

    linear = True

    def policy(self) -> Rounds:
        return self.context.rounds()

    def init(self, model: Vector) -> ScaffoldState:
        return self.inner.init(model)

    def aggregate(self, state: ScaffoldState, updates: ClientUpdates) -> ScaffoldState:
        return self.inner.init(self.inner.aggregate(state, updates).model)

    def gradient_correction(self, state: ScaffoldState, client: Ints) -> Stack:
        return self.inner.gradient_correction(state, client)

    def aggregate_buffers(self, server: Vector, clients: Stack, updates: ClientUpdates) -> Vector:
        return self.inner.aggregate_buffers(server, clients, updates)

    @property
    def inner(self) -> Scaffold:
        return Scaffold().bind(self.context)


def test_p12_without_variates_it_is_fedavg_to_the_bit() -> None:
    scaffold, trainer, initial = some(Scaffold()), quadratics(CLIENTS), start_model()
    schedule = scheduled(scaffold, HORIZON, seed=1)
    plain = server_models(some(FedAvg()), schedule, trainer, initial)
    frozen = server_models(some(Frozen()), schedule, trainer, initial)
    assert all(torch.equal(a, b) for a, b in zip(frozen, plain, strict=True))
    live = server_models(scaffold, schedule, trainer, initial)
    assert torch.equal(live[1], plain[1])
    assert not close(live[2], plain[2], 1e-6)


def test_identical_clients_cancel_their_corrections() -> None:
    single = quadratics(1)
    same = Quadratics(single.curvature.repeat(CLIENTS, 1), single.centre.repeat(CLIENTS, 1))
    method, initial = everyone(Scaffold()), start_model()
    schedule = scheduled(method, HORIZON, seed=1)
    models = server_models(method, schedule, same, initial)
    plain = server_models(everyone(FedAvg()), schedule, same, initial)
    assert all(close(a, b, 1e-10) for a, b in zip(models, plain, strict=True))


def test_finds_the_optimum_where_fedavg_drifts() -> None:
    """What the method is for: many local steps on different clients."""
    trainer, initial = quadratics(CLIENTS), start_model()
    curved = trainer.curvature * trainer.centre
    optimum = curved.sum(dim=0) / trainer.curvature.sum(dim=0)
    method = everyone(Scaffold())
    schedule = scheduled(method, 30_000.0, seed=1)
    model = server_models(method, schedule, trainer, initial)[-1]
    plain = server_models(everyone(FedAvg()), schedule, trainer, initial)[-1]
    assert close(model, optimum, 1e-8)
    assert float((plain - optimum).abs().max()) > 1e-2


def test_divides_by_the_steps_made_and_leaves_clients_without_one() -> None:
    """A job cut short at 2 steps counts 2; no step, or a step of size 0, tells nothing."""
    method = bound(Scaffold(), 4)
    state = method.init(torch.zeros(1, dtype=torch.float64))
    start = torch.zeros(2, 1, dtype=torch.float64)
    end = torch.tensor([[-1.0], [-1.0]], dtype=torch.float64)
    after = method.aggregate(state, answers_of([0, 1], [5, 2], [0, 0], start, end, rate=0.5))
    assert [float(after.variates[i]) for i in (0, 1)] == pytest.approx([1 / 2.5, 1.0])
    assert float(after.control) == pytest.approx((1 / 2.5 + 1.0) / 4)
    for idle in (
        answers_of([0, 1], [0, 0], [0, 0], start, start),
        answers_of([0, 1], [5, 5], [0, 0], start, start, rate=0.0),
    ):
        same = method.aggregate(after, idle)
        assert torch.equal(same.control, after.control)
        assert torch.equal(same.variates[0], after.variates[0])


def traffic(method: Method[S]) -> list[tuple[int, int]]:
    aggregator = make_aggregator(method, scheduled(method, 900.0, seed=1), start_model())
    times = np.array([0.0, 900.0])
    recorder = Recorder(aggregator, 0, times, lambda _: torch.zeros(2))
    for event in PlainLoop(aggregator, quadratics(CLIENTS)).events():
        recorder.observe(event)
    return [(row.bits_up, row.bits_down) for row in recorder.rows()]


def test_traffic_is_twice_that_of_fedavg() -> None:
    plain = traffic(some(FedAvg()))
    assert plain[-1][0] > 0
    corrected = traffic(some(Scaffold()))
    assert corrected == [(2 * up, 2 * down) for up, down in plain]


def test_buffers_are_no_part_of_the_variates() -> None:
    layout = Layout(parameters=2, buffers=3, counters=0)
    initial = torch.zeros(5, dtype=torch.float64)
    method = some(Scaffold())
    schedule = scheduled(method, HORIZON, seed=1)
    aggregator = Aggregator(method, schedule, layout, np.ones(len(schedule.client)), initial)
    correction = aggregator.gradient_correction(np.array([0, 1]))
    assert correction is not None
    assert correction.shape == (2, 2)
    assert aggregator.message_bits == 32 * (5 + 2)
