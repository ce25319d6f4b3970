"""SCAFFOLD: c is the mean of the c_i (P12), FedAvg without variates, and no drift with them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch

from favano.engine import Recorder, Replay, replayed, spread_of
from favano.methods.fedavg import FedAvg
from favano.methods.scaffold import Scaffold, ScaffoldState
from favano.schedule import Barrier, Policy, Schedule, plan
from favano.timing import two_speeds
from favano.training import Layout
from favano.types import Floats, Ints, Stack, Vector
from tests.MISSING import Algorithm, Visit
from tests.problems import (
    AnyState,
    Quadratics,
    close,
    make_replay,
    quadratics,
    server_models,
    start_model,
    visit_of,
)

CLIENTS = 9
SOME = Barrier(selected=4, local_steps=5)
ALL = Barrier(selected=CLIENTS, local_steps=5)


def rounds(policy: Barrier, horizon: float = 3000.0) -> Schedule:
    return plan(policy, two_speeds(CLIENTS, seed=1), horizon=horizon, seed=1)


@pytest.mark.parametrize("deadline", [None, 9.0])
def test_rounds_by_hand(deadline: float | None) -> None:
    """Every formula written out, two of four clients in each round, also with jobs cut short."""
    policy = Barrier(selected=2, local_steps=3, deadline=deadline, at_deadline="take")
    schedule = plan(policy, two_speeds(4, seed=1), horizon=300, seed=1)
    assert (len(set(schedule.steps[: schedule.jobs].tolist())) > 1) == (deadline is not None)
    trainer, x, eta = quadratics(4), start_model(), 0.1
    algorithm = Scaffold(policy=policy, clients=4, server_learning_rate=0.5)
    found = server_models(algorithm, schedule, trainer, x)
    c, own = torch.zeros(4, dtype=torch.float64), torch.zeros(4, 4, dtype=torch.float64)
    assert schedule.updates > 2
    for version, after in enumerate(found[1:]):
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
    algorithm, trainer = Scaffold(policy=SOME, clients=CLIENTS), quadratics(CLIENTS)
    schedule, state = rounds(SOME), algorithm.init(start_model())
    for version in range(schedule.updates):
        client = schedule.client[schedule.offsets[version] : schedule.offsets[version + 1]]
        corrected = zip(client.tolist(), algorithm.drift(state, client), strict=True)
        ends = [trainer.local(i, state.model, 5, 0.1, drift) for i, drift in corrected]
        visit = visit_of(client.tolist(), [5] * 4, [0] * 4, rate=0.1)
        state = algorithm.update(state, visit, state.model.expand(4, -1), torch.stack(ends))
        variates = torch.stack(list(state.variates.values()))
        assert close(state.control, variates.sum(dim=0) / CLIENTS)
    assert set(state.variates) == set(range(CLIENTS))
    assert float(variates.abs().max()) > 1.0


@dataclass(frozen=True)
class Frozen:
    """SCAFFOLD whose variates stay 0."""

    inner: Scaffold

    @property
    def policy(self) -> Policy:
        return self.inner.policy

    def init(self, model: Vector) -> ScaffoldState:
        return self.inner.init(model)

    def update(self, state: ScaffoldState, visit: Visit, start: Stack, end: Stack) -> ScaffoldState:
        return self.inner.init(self.inner.update(state, visit, start, end).model)

    def restart(self, server: Vector, own: Stack) -> None: ...

    def drift(self, state: ScaffoldState, client: Ints) -> Stack:
        return self.inner.drift(state, client)

    def next_steps(self, state: ScaffoldState, client: Ints) -> None: ...

    def average(self, server: Vector, clients: Stack, visit: Visit) -> Vector:
        return self.inner.average(server, clients, visit)

    def rate(self, client: Ints) -> Floats:
        return self.inner.rate(client)


def test_p12_without_variates_it_is_fedavg_to_the_bit() -> None:
    schedule, trainer, initial = rounds(SOME), quadratics(CLIENTS), start_model()
    scaffold = Scaffold(policy=SOME, clients=CLIENTS)
    plain = server_models(FedAvg(policy=SOME), schedule, trainer, initial)
    frozen = server_models(Frozen(scaffold), schedule, trainer, initial)
    assert all(torch.equal(a, b) for a, b in zip(frozen, plain, strict=True))
    live = server_models(scaffold, schedule, trainer, initial)
    assert torch.equal(live[1], plain[1])
    assert not close(live[2], plain[2], 1e-6)


def test_identical_clients_cancel_their_corrections() -> None:
    one = quadratics(1)
    same = Quadratics(one.curvature.repeat(CLIENTS, 1), one.centre.repeat(CLIENTS, 1))
    schedule, initial = rounds(ALL), start_model()
    found = server_models(Scaffold(policy=ALL, clients=CLIENTS), schedule, same, initial)
    plain = server_models(FedAvg(policy=ALL), schedule, same, initial)
    assert all(close(a, b, 1e-10) for a, b in zip(found, plain, strict=True))


def test_finds_the_optimum_where_fedavg_drifts() -> None:
    """What the method is for: many local steps on different clients."""
    trainer, initial = quadratics(CLIENTS), start_model()
    curved = trainer.curvature * trainer.centre
    optimum = curved.sum(dim=0) / trainer.curvature.sum(dim=0)
    schedule = rounds(ALL, 30_000.0)
    found = server_models(Scaffold(policy=ALL, clients=CLIENTS), schedule, trainer, initial)[-1]
    plain = server_models(FedAvg(policy=ALL), schedule, trainer, initial)[-1]
    assert close(found, optimum, 1e-8)
    assert float((plain - optimum).abs().max()) > 1e-2


def test_divides_by_the_steps_made_and_leaves_clients_without_one() -> None:
    """A job cut short at 2 steps counts 2; no step, or a step of size 0, tells nothing."""
    algorithm = Scaffold(policy=SOME, clients=4)
    state = algorithm.init(torch.zeros(1, dtype=torch.float64))
    start = torch.zeros(2, 1, dtype=torch.float64)
    end = torch.tensor([[-1.0], [-1.0]], dtype=torch.float64)
    after = algorithm.update(state, visit_of([0, 1], [5, 2], [0, 0], rate=0.5), start, end)
    assert [float(after.variates[i]) for i in (0, 1)] == pytest.approx([1 / 2.5, 1.0])
    assert float(after.control) == pytest.approx((1 / 2.5 + 1.0) / 4)
    for idle in (visit_of([0, 1], [0, 0], [0, 0]), visit_of([0, 1], [5, 5], [0, 0], rate=0.0)):
        same = algorithm.update(after, idle, start, start)
        assert torch.equal(same.control, after.control)
        assert torch.equal(same.variates[0], after.variates[0])


def traffic(algorithm: Algorithm[AnyState]) -> list[tuple[int, int]]:
    replay = make_replay(algorithm, rounds(SOME, 900.0), start_model())
    times = np.array([0.0, 900.0])
    recorder = Recorder(replay, 0, times, lambda _: torch.zeros(2), spread_of(replay))
    for moment in replayed(replay, quadratics(CLIENTS)):
        recorder.observe(moment)
    return [(row.bits_up, row.bits_down) for row in recorder.rows()]


def test_traffic_is_twice_that_of_fedavg() -> None:
    plain = traffic(FedAvg(policy=SOME))
    assert plain[-1][0] > 0
    corrected = traffic(Scaffold(policy=SOME, clients=CLIENTS))
    assert corrected == [(2 * up, 2 * down) for up, down in plain]


def test_buffers_are_no_part_of_the_variates() -> None:
    layout = Layout(parameters=2, buffers=3, counters=0)
    initial = torch.zeros(5, dtype=torch.float64)
    schedule = rounds(SOME)
    algorithm = Scaffold(policy=SOME, clients=CLIENTS)
    replay = Replay(algorithm, schedule, layout, np.ones(len(schedule.client)), initial)
    drift = replay.drift(np.array([0, 1]))
    assert drift is not None
    assert drift.shape == (2, 2)
    assert replay.message_bits == 32 * (5 + 2)
