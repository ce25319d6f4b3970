"""One suite over every method of ours, on quadratics in float64."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from favano.aggregation import Aggregator
from favano.engine import PlainLoop
from favano.methods import AnyMethod, ClientUpdates, our_methods
from favano.planning.planned import make_context, plan_seed
from favano.planning.schedules import make_schedule
from favano.schedule import Schedule
from favano.specification.spec import Spec
from favano.timing import ClientSpeeds
from favano.training import Layout, Trainer, Work
from favano.types import Ints, Stack, Vector
from tests.problems import (
    Quadratics,
    answers_of,
    close,
    make_aggregator,
    quadratics,
    server_models,
    start_model,
    trainer_of,
)
from tests.specs import complete, read_by

CLIENTS = 15
EVERY = pytest.mark.parametrize("name", list(our_methods()))


EACH_ARRIVAL = {"asyncsgd", "asyncsgd-adaptive", "fedasync", "asyncfeded", "asofed"}  # updates


def setting(name: str, **keys: object) -> Spec:
    horizon = 100.0 if name in EACH_ARRIVAL else 400.0
    base = {"clients": CLIENTS, "selected": 4, "local_steps": 5, "horizon": horizon}
    own = {"buffer": 3} if name == "fedbuff" else {}
    return complete(**read_by({"algorithm": name, **base, **own, **keys}))


def build(name: str, **keys: object) -> tuple[AnyMethod, Schedule]:
    planned = plan_seed(setting(name, **keys), 0)
    return planned.method, planned.schedule


def renumbered(spec: Spec, order: Ints) -> AnyMethod:
    """The method of a run whose clients have other numbers."""
    context = make_context(spec, 0)
    fleet = context.fleet
    moved = ClientSpeeds(fleet.mean[order], fleet.law, fleet.streams[order])
    return spec.method.bind(replace(context, fleet=moved))


@EVERY
def test_makes_the_class_it_names(name: str) -> None:
    assert type(build(name)[0]) is our_methods()[name]


@pytest.mark.quick("quafl", "aafl", "asofed")
@EVERY
def test_converges_near_the_optimum_of_equal_clients(name: str) -> None:
    """With one common quadratic every method must find its minimum.

    AsyncFedED's published server step is for few clients: with all of these at work it circles.
    ASO-Fed makes the steps of slow clients five times as long, which must not be too long.
    """
    steady = {"server_learning_rate": 2 / CLIENTS} if name == "asyncfeded" else {}
    horizon = 1000.0 if name in EACH_ARRIVAL else 3000.0
    method, schedule = build(name, horizon=horizon, **steady)
    single, rate = quadratics(1), 0.05 if name == "asofed" else 0.2
    common = Quadratics(single.curvature.repeat(CLIENTS, 1), single.centre.repeat(CLIENTS, 1))
    models = server_models(method, schedule, common, start_model(), rate)
    assert close(models[-1], single.centre[0], 1e-2)


WITH_SERVER = {  # methods that keep a part of the old model keep as large a part of its buffers
    "favano", "favano-delta", "quafl", "fedbuff", "asyncsgd", "asyncsgd-adaptive", "fedfix",
    "asyncfeded", "asofed",
}  # fmt: skip
ROUNDS = {"fedavg", "fedprox", "fednova", "scaffold"}
BY_WEIGHT = {
    "fedasync": 0.6 * 10 + 0.4 * (0.6 * 3 + 0.4 * 2),
    "aafl": (13 + 13 * 2) / 15,
}  # alpha; p_i = 1/15


@EVERY
def test_buffers_are_averaged_as_the_method_says(name: str) -> None:
    """Server 2, clients 3 and 10 (FedAsync takes in one after the other)."""
    method, _ = build(name)
    updates = answers_of([0, 1], [2, 2], [0, 0])
    server, clients = torch.tensor([2.0]), torch.tensor([[3.0], [10.0]])
    average = float(method.aggregate_buffers(server, clients, updates))
    expected = 5.0 if name in WITH_SERVER else 6.5 if name in ROUNDS else BY_WEIGHT[name]
    assert average == pytest.approx(expected)


@EVERY
def test_is_pure(name: str) -> None:
    """Same inputs, same outputs, inputs untouched."""
    method, schedule = build(name)
    jobs = slice(0, int(schedule.offsets[1]))
    columns = schedule.client[jobs], schedule.steps[jobs], schedule.staleness[jobs]
    generator = torch.Generator().manual_seed(0)
    start, end = torch.randn(2, len(columns[0]), 6, generator=generator, dtype=torch.float64)
    updates = ClientUpdates(*columns, np.full(len(columns[0]), 0.1), 0, start, end)
    before = (start.clone(), end.clone())
    model = torch.ones(6, dtype=torch.float64)
    state = method.init(model)
    first = method.aggregate(state, updates).model
    second = method.aggregate(state, updates).model
    own = method.next_client_model(model, end)
    assert torch.equal(first, second)
    assert torch.equal(start, before[0])
    assert torch.equal(end, before[1])
    assert torch.equal(model, torch.ones(6, dtype=torch.float64))
    if own is not None:
        own += 1  # a message is a snapshot: what the client does next must not reach the server
        assert torch.equal(end, before[1])
        assert torch.equal(first, method.aggregate(state, updates).model)


@EVERY
def test_p14_zero_learning_rate_leaves_the_model_while_time_goes_on(name: str) -> None:
    method, schedule = build(name)
    initial = start_model()
    models = server_models(method, schedule, quadratics(CLIENTS), initial, rate=0.0)
    assert all(close(model, initial) for model in models)
    assert schedule.updates > 0
    assert schedule.time[-1] > 0


@EVERY
def test_p15_is_deterministic(name: str) -> None:
    runs = []
    for _ in range(2):
        method, schedule = build(name)
        runs.append(server_models(method, schedule, quadratics(CLIENTS), start_model()))
    assert all(torch.equal(a, b) for a, b in zip(*runs, strict=True))


@EVERY
def test_p16_renumbering_leaves_the_history_unchanged(name: str) -> None:
    spec = setting(name)
    order = np.random.default_rng(0).permutation(CLIENTS)
    trainer = quadratics(CLIENTS)
    moved = Quadratics(trainer.curvature[order], trainer.centre[order])
    histories = []
    for numbers, problem in ((np.arange(CLIENTS), trainer), (order, moved)):
        method = renumbered(spec, numbers)
        schedule = make_schedule(spec, method, 0)
        histories.append(server_models(method, schedule, problem, start_model()))
    assert all(torch.equal(a, b) for a, b in zip(*histories, strict=True))


class _OneByOne:
    """The same training in batches of one job, in reverse order."""

    def __init__(self, trainer: Trainer) -> None:
        self.trainer = trainer

    def train(self, start: Stack, work: Work) -> Stack:
        rows: list[Vector] = []
        for row in reversed(range(len(start))):
            here = slice(row, row + 1)
            correction = None if work.correction is None else work.correction[here]
            columns = work.client[here], work.first_step[here], work.steps[here], work.rate[here]
            part = Work(*columns, correction)
            rows.append(self.trainer.train(start[row : row + 1], part)[0])
        return torch.stack(rows[::-1])


@EVERY
def test_is_indifferent_to_batching(name: str) -> None:
    method, schedule = build(name)
    problem, initial = quadratics(CLIENTS), start_model()
    together = server_models(method, schedule, problem, initial)
    apart = make_aggregator(method, schedule, initial)
    one_by_one = _OneByOne(trainer_of(method, problem, len(initial)))
    models = [event.server for event in PlainLoop(apart, one_by_one).events()]
    assert all(torch.equal(a, b) for a, b in zip(together, models, strict=True))


@EVERY
def test_a_saved_schedule_gives_the_same_run(name: str) -> None:
    method, schedule = build(name)
    copy = Schedule(**vars(schedule))
    trainer, initial = quadratics(CLIENTS), start_model()
    first = server_models(method, schedule, trainer, initial)
    second = server_models(method, copy, trainer, initial)
    assert torch.equal(first[-1], second[-1])


@EVERY
def test_buffers_are_averaged_and_never_extrapolated(name: str) -> None:
    """A variance between 1 and 3 everywhere stays there, however progress is reweighted."""
    method, schedule = build(name)

    class WithBuffers:
        def train(self, start: Stack, work: Work) -> Stack:
            end = start.clone()
            end[:, :2] += 100.0
            end[:, 2] = torch.from_numpy(1.0 + 2.0 * (work.client % 2))
            end[:, 3] += torch.from_numpy(work.steps).double()  # a counter
            return end

    initial = torch.tensor([0.0, 0.0, 2.0, 0.0], dtype=torch.float64)
    layout = Layout(parameters=2, buffers=1, counters=1)
    aggregator = Aggregator(method, schedule, layout, np.ones(len(schedule.client)), initial)
    counter = 0.0
    for event in PlainLoop(aggregator, WithBuffers()).events():
        assert 1.0 <= float(event.server[2]) <= 3.0
        assert float(event.server[3]) >= counter
        counter = float(event.server[3])
    assert counter == round(counter) > 0
