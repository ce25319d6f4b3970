"""ASO-Fed: jobs with a memory by hand, its reductions, step sizes from delays, and all lanes."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from favano.aggregation import Aggregator
from favano.data import BatchStream
from favano.engine import PlainLoop, live_models
from favano.methods import ClientUpdates, Method, ModelState
from favano.methods.asofed import AsoFed, mean_delay
from favano.methods.asyncsgd import AsyncSGD
from favano.policies import Buffered
from favano.schedule import Schedule
from favano.timing import Trace, traced_fleet, two_speeds
from favano.training import (
    FlatModel,
    LocalRule,
    LoopTrainer,
    Task,
)
from favano.types import Floats, Stack
from tests.engine.networks import Problem, check_on_stacks
from tests.methods.bound import bound, scheduled
from tests.problems import (
    Remembering,
    answers_of,
    close,
    make_aggregator,
    quadratics,
    server_models,
    start_model,
)

FIRST = np.array([0])


def half_square(output: Tensor, labels: Tensor) -> Tensor:
    return output.square().mean() / 2


def one_number(method: AsoFed, proximal: float) -> LoopTrainer:
    """A client whose model is one number w, with the loss w^2 / 2 and so the gradient w."""
    flat = FlatModel(nn.Linear(1, 1, bias=False), device="cpu", dtype=torch.float64)
    ones, labels = torch.ones(4, 1, dtype=torch.float64), torch.zeros(4)
    task = Task(ones, labels, BatchStream([np.arange(4)], 2, 0), half_square)
    return LoopTrainer(flat, task, LocalRule(proximal, memory=2, step=method.local_step))


def test_two_jobs_of_two_steps_by_hand() -> None:
    """beta = 1/4, lambda = 1/2, eta = 1/10; the memory goes on from job to job.

    Job 1 from 1:      G = 1,       zeta = 1,                          w = 0.9,    h = 0,     v = G
                       G = 0.85,    zeta = 0.85 - 1 = -0.15,           w = 0.915,  h = 0.75,  v = G
    Job 2 from 0.915:  G = 0.915,   zeta = 0.915 - 0.85 + 0.75,        w = 0.8335, h = 0.825, v = G
                       G = 0.79275, zeta = 0.79275 - 0.915 + 0.825,    w = 0.763225, h = 0.8925
    """
    method = bound(AsoFed(memory_decay=0.25, latency="none"), 1, local_steps=2)
    schedule = scheduled(method, 50)
    trainer, initial = one_number(method, 0.5), torch.ones(1, dtype=torch.float64)
    rates = np.full(len(schedule.client), 0.1)
    aggregator = Aggregator(method, schedule, trainer.model.layout, rates, initial)
    servers, memories = [], []
    for event in PlainLoop(aggregator, trainer).events():
        servers.append(float(event.server))
        (start,) = aggregator.memory.starts(FIRST, event.clients.of(FIRST))
        memories.append(start[1:].tolist())
    assert servers[:3] == pytest.approx([1.0, 0.915, 0.763225], rel=1e-14)
    assert memories[0] == [0.0, 0.0]
    assert memories[1] == pytest.approx([0.75, 0.85], rel=1e-14)
    assert memories[2] == pytest.approx([0.8925, 0.79275], rel=1e-14)


def test_the_first_step_follows_the_gradient() -> None:
    """With nothing remembered zeta is G, whatever the decay."""
    gradient, none = torch.tensor([3.0, -2.0]), torch.zeros(2)
    for decay in (0.0, 0.001, 1.0):
        direction, memory = AsoFed(memory_decay=decay).local_step(gradient, (none, none))
        assert torch.equal(direction, gradient)
        assert torch.equal(memory[0], none)
        assert torch.equal(memory[1], gradient)


def test_a_step_leaves_its_arguments() -> None:
    h, v, gradient = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
    before = h.clone(), v.clone(), gradient.clone()
    AsoFed().local_step(gradient, (h, v))
    assert all(torch.equal(a, b) for a, b in zip(before, (h, v, gradient), strict=True))


def test_without_forgetting_the_directions_of_a_client_add_up_to_its_last_gradient() -> None:
    """beta = 1: h stays 0, so that zeta = G - v, over all jobs of the client."""
    method = bound(AsoFed(memory_decay=1.0, delay_logarithm="none", latency="none"), 1, 3)
    schedule = scheduled(method, 60)
    problem, initial, rate = quadratics(1), start_model(), 0.1
    models = server_models(method, schedule, problem, initial, rate)
    assert len(models) > 4
    model = initial
    for after in models[1:]:
        for _ in range(3):
            before = model
            model = initial - rate * problem.gradient(0, before)
        assert close(after, model)


class Frozen(Method[ModelState]):
    """ASO-Fed whose clients remember nothing but zeros."""

    memory = 2
    linear = True

    def policy(self) -> Buffered:
        return AsoFed().bind(self.context).policy()

    def aggregate(self, state: ModelState, updates: ClientUpdates) -> ModelState:
        return AsoFed().bind(self.context).aggregate(state, updates)

    def local_step(
        self, gradient: Stack, memory: tuple[Stack, ...]
    ) -> tuple[Stack, tuple[Stack, ...]]:
        return AsoFed().local_step(gradient, memory)[0], memory


def test_frozen_memories_are_plain_averaging_of_progress() -> None:
    """Each arrival counts 1/n, as in AsyncSGD with jobs of as many steps."""
    fleet = two_speeds(6, seed=3)
    plain = AsyncSGD(assignment="same", gradients_per_job=3, server_learning_rate=1 / 6)
    frozen, other = bound(Frozen(), fleet), bound(plain, fleet)
    assert frozen.policy() == other.policy()
    schedule = scheduled(frozen, 200, seed=3)
    models = server_models(frozen, schedule, quadratics(6), start_model())
    expected = server_models(other, schedule, quadratics(6), start_model())
    assert len(models) > 20
    assert all(close(a, b) for a, b in zip(models, expected, strict=True))


def test_one_step_jobs_are_asyncsgd_until_a_client_comes_back() -> None:
    fleet = two_speeds(6, seed=3)
    method = bound(AsoFed(), fleet, local_steps=1)
    plain = bound(AsyncSGD(assignment="same"), fleet)
    schedule = scheduled(method, 60, seed=3)
    client = schedule.client[: schedule.jobs].tolist()
    again = next(job for job, who in enumerate(client) if who in client[:job])
    models = server_models(method, schedule, quadratics(6), start_model())
    expected = server_models(plain, schedule, quadratics(6), start_model())
    assert again > 1
    assert all(close(a, b) for a, b in zip(models[: again + 1], expected, strict=False))
    assert not close(models[again + 1], expected[again + 1], 1e-6)


def test_an_arrival_counts_as_much_as_its_client() -> None:
    """1/n, or the share of samples; all shares add up to one."""
    start, end = torch.tensor([[1.0]]).double(), torch.tensor([[5.0]]).double()
    server = torch.tensor([10.0]).double()
    samples = np.array([1.0, 2.0, 5.0])
    for options, expected in ((AsoFed(), 4 / 3), (AsoFed(sample_weights=True), 4 * 5 / 8)):
        method = bound(options, 3, samples=samples)
        after = method.aggregate(method.init(server), answers_of([2], [3], [7], start, end))
        assert float(after.model) == pytest.approx(10 + expected)
        assert method.context.shares(options.sample_weights).sum() == pytest.approx(1)


def scripted() -> Schedule:
    """Jobs of one step: client 0 takes 2 and 4 in turn, client 1 takes 30, then 50."""
    fleet = traced_fleet(Trace((np.array([2.0, 4.0]), np.array([30.0, 50.0]))))
    return scheduled(bound(AsoFed(latency="none"), fleet, local_steps=1), 85)


def of_client(client: int, values: Floats, schedule: Schedule) -> list[float]:
    """The numbers of a client's jobs in the order in which it does them."""
    mine = np.flatnonzero(schedule.client == client)
    numbers: list[float] = values[mine[np.argsort(schedule.begin[mine])]].tolist()
    return numbers


def test_mean_delays_of_a_scripted_schedule() -> None:
    """What a job's client has seen before it begins; 1 where it has seen nothing."""
    schedule = scripted()
    delay = mean_delay(schedule)
    assert of_client(0, delay, schedule)[:6] == [1.0, 2.0, 3.0, 8 / 3, 3.0, 14 / 5]
    assert of_client(1, delay, schedule) == [1.0, 30.0, 40.0]


@pytest.mark.parametrize(
    ("logarithm", "fast", "slow"),
    [
        ("natural", [1.0, 1.0, np.log(3), 1.0, np.log(3)], [1.0, np.log(30), np.log(40)]),
        ("decimal", [1.0] * 5, [1.0, np.log10(30), np.log10(40)]),
        ("none", [1.0] * 5, [1.0] * 3),
    ],
)
def test_steps_grow_with_the_logarithm_of_the_delay(
    logarithm: Literal["natural", "decimal", "none"], fast: list[float], slow: list[float]
) -> None:
    """r_k = max(1, log d_k): log 2 and log 8/3 are below 1."""
    schedule = scripted()
    rates = bound(AsoFed(delay_logarithm=logarithm), 2).rates(schedule)
    assert of_client(0, rates, schedule)[:5] == pytest.approx(fast)
    assert of_client(1, rates, schedule) == pytest.approx(slow)


def test_the_time_to_talk_is_part_of_the_delay() -> None:
    fleet = traced_fleet(Trace((np.array([2.0]), np.array([30.0]))))
    method = bound(AsoFed(), fleet, local_steps=1)  # each exchange costs the client 3
    schedule = scheduled(method, 80)
    assert set(of_client(1, mean_delay(schedule), schedule)[1:]) == {33.0}


def test_a_job_that_is_lost_when_it_begins_is_before_the_next_one() -> None:
    """Jobs that no update uses are the last of a schedule."""
    schedule = Schedule(
        clients=1, local_steps=4, time=np.array([4.0, 8.0]), wasted_steps=np.zeros(2, np.int64),
        client=np.zeros(3, np.int64), steps=np.array([4, 4, 0]), start_version=np.array([-1, 0, 0]),
        used_by=np.array([0, 1, 2]), first_step=np.array([0, 4, 4]),
        begin=np.array([0.0, 4.0, 4.0]), finish=np.array([4.0, 8.0, 4.0]),
    )  # fmt: skip
    assert mean_delay(schedule).tolist() == [1.0, 2.0, 4.0]


def test_before_a_job_is_done_there_is_no_delay() -> None:
    short = scheduled(bound(AsoFed(), 4), 0.5)
    assert mean_delay(short).tolist() == [1.0] * len(short.client)


def test_policy() -> None:
    method = bound(AsoFed(), 8)
    each = Buffered(buffer=1, local_steps=3, hand_out="flush", concurrency=8, latency="client")
    assert method.policy() == each
    fewer = bound(AsoFed(concurrency=5, latency="server"), 8).policy()
    assert (fewer.concurrency, fewer.latency) == (5, "server")


def test_stacked_lanes_with_fedavg_beside_it_equal_the_loop() -> None:
    """One pool, one stack of lanes in float64: some clients have a memory, the others none."""
    problems = [Problem(name, seed) for seed, name in enumerate(("asofed", "fedavg", "asofed"))]
    check_on_stacks(problems, 6, 3)


def test_end_models_are_as_long_as_they_were_sent() -> None:
    """Whoever shares the lanes, a job hands in its model and its own memory."""
    problems = [Problem(name, 1) for name in ("asofed", "fedavg")]
    parameters, size = problems[0].flat.layout.parameters, problems[0].flat.layout.size
    for problem, length in zip(problems, (size + 2 * parameters, size), strict=True):
        run = problem.aggregator()
        work = run.work(run.timeline.jobs(0)[:1])
        start = run.memory.starts(work.client, problem.initial[None])
        end = problem.trainer.train(start, work)
        assert start.shape == end.shape == (1, length)
        assert run.layout.size == size


def test_live_models_go_on_with_the_clients_memory() -> None:
    """Two steps of 2 each: at time 6 the client has made one step of its second job."""
    fleet = traced_fleet(Trace((np.array([2.0]),)))
    method = bound(AsoFed(latency="none"), fleet, local_steps=2)
    problem, initial = quadratics(1), start_model()
    trainer = Remembering(problem, method.local_step, len(initial))
    aggregator = make_aggregator(method, scheduled(method, 20), initial)
    live = live_models(aggregator, trainer, fleet, 0)
    for event in PlainLoop(aggregator, trainer).events():
        if event.version == 0:
            (start,) = aggregator.memory.starts(FIRST, event.clients.of(FIRST))
            model, rate = live(6.0, event.clients)[0], 0.1 * np.log(4)
            assert close(model, trainer.job(start, 0, 1, rate)[:4])
            assert not close(model, problem.local(0, event.server, 1, rate), 1e-3)


def test_messages_are_no_longer_than_others() -> None:
    """The memory stays on the client."""
    asofed, fedavg = Problem("asofed", 0).aggregator(), Problem("fedavg", 0).aggregator()
    assert asofed.message_bits == fedavg.message_bits
