"""Evaluation times, counters of work, and the rows of a history."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, reject
from hypothesis import strategies as st
from torch import Tensor

from favano.aggregation import Aggregator
from favano.engine import (
    Engine,
    Measurement,
    MessageSize,
    PlainLoop,
    Recorder,
    Scoring,
    ServerVersion,
    count_work,
    evaluation_times,
    joules,
)
from favano.errors import BadInput
from favano.methods import ModelState, our_methods
from favano.methods.fedavg import FedAvg
from favano.options import options_of
from favano.planning.planned import bind_method, plan_seed
from favano.policies import Buffered, Policy, Polling, Rounds, Windowed
from favano.records import Row
from favano.records.chain import link
from favano.schedule import Schedule, plan
from favano.specification.spec import Spec
from favano.specification.spec import required as known
from favano.timing import (
    ClientSpeeds,
    Deterministic,
    Energy,
    Trace,
    client_speeds,
    traced_fleet,
    two_speeds,
)
from favano.training import Finished, StepsDone, Trainer, Work, one_thread
from favano.types import Floats, Ints, Mask, Stack, Vector
from tests.engine.networks import Problem, shuffled, stack_lanes
from tests.examples import examples
from tests.methods.bound import bound, scheduled
from tests.problems import make_aggregator, quadratics, start_model, trainer_of
from tests.schedule.test_plan import fleets, policies
from tests.specs import complete, read_by

FLEET = traced_fleet(Trace((np.array([1.0, 2.0]), np.array([3.0, 4.0]), np.array([4.0, 6.0]))))


def test_evaluation_times() -> None:
    assert evaluation_times(10, 4, 9.0).tolist() == [0, 4, 8, 10]
    assert evaluation_times(8, 4, 11.5).tolist() == [0, 4, 8, 11.5]
    assert evaluation_times(8, 4, 8.0).tolist() == [0, 4, 8]


def three_of_three() -> tuple[Aggregator[ModelState], Schedule]:
    """FedAvg with two steps each of all three clients."""
    method = bound(FedAvg(), FLEET, 2, selected=3)
    schedule = scheduled(method, 20)
    return make_aggregator(method, schedule, start_model()), schedule


def test_rows_of_a_synchronous_run_by_hand() -> None:
    """Rounds end at 13 and 26; the horizon is 20; three clients make two steps each a round."""
    aggregator, schedule = three_of_three()
    scored: list[Vector] = []

    def score(model: Vector) -> Tensor:
        scored.append(model)
        return torch.tensor([float(len(scored)), 0.5], dtype=torch.float64)

    heard: list[int] = []
    times = evaluation_times(20, 5, float(schedule.time[-1]))
    recorder = Recorder(aggregator, 4, times, score)
    for event in PlainLoop(aggregator, quadratics(3)).events():
        heard.append(event.version)
        recorder.observe(event)
    rows = recorder.rows()
    assert [row.time for row in rows] == [0, 5, 10, 15, 20, 26]
    assert [row.server_step for row in rows] == [0, 0, 0, 1, 1, 2]
    assert [row.local_steps for row in rows] == [0, 2, 6, 6, 10, 12]  # of jobs that have ended
    message = 32 * 4
    assert [row.bits_up // message for row in rows] == [0, 1, 3, 3, 5, 6]
    assert [row.bits_down // message for row in rows] == [3, 3, 3, 6, 6, 6]
    assert [row.loss for row in rows] == [1, 1, 1, 2, 2, 3]  # one evaluation a version
    assert {row.seed for row in rows} == {4}
    assert heard == [-1, 0, 1]


def test_what_was_measured_with_others_is_not_measured_again() -> None:
    """One measurement of a version serves all times before the next update."""
    aggregator, schedule = three_of_three()

    def never(*given: object) -> Tensor:
        raise AssertionError

    times = evaluation_times(20, 5, float(schedule.time[-1]))
    recorder = Recorder(aggregator, 4, times, never, never)  # type: ignore[arg-type]
    for event in PlainLoop(aggregator, quadratics(3)).events():
        assert recorder.due(event.version)
        numbers = torch.tensor([1.0, 0.5, 2.0, 3.0]) + event.version
        measured = Measurement(numbers, event.server.clone(), event.server + 1)
        recorder.observe(event._replace(measured=[measured]))
    assert [row.loss for row in recorder.rows()] == [0, 0, 0, 1, 1, 2]
    assert [row.potential for row in recorder.rows()] == [2, 2, 2, 3, 3, 4]
    assert recorder.last is not None
    assert torch.equal(recorder.last.mean, recorder.last.server + 1)


def test_the_last_observation_is_a_copy_and_counts_every_refusal() -> None:
    aggregator, _ = three_of_three()
    recorder = Recorder(aggregator, 0, np.array([0.0, 5.0]), lambda _: torch.zeros(2))
    server, held = start_model(), PlainLoop(aggregator, quadratics(3))
    recorder.observe(ServerVersion(-1, server, np.array([0, 2]), held, held.snapshot))
    server += 1  # the memory of a moment may be used again
    assert recorder.last is not None
    assert recorder.last.refused == 2
    assert torch.equal(recorder.last.server, start_model())


def test_lost_steps_count_as_local_steps_only() -> None:
    policy = Rounds(selected=3, local_steps=2, wait_for=1)
    schedule = plan(policy, FLEET, horizon=7, seed=0)
    counters = count_work(schedule, np.array([0.0, 5.0, 6.0, 12.0]))
    assert counters.contributed_steps.tolist() == [0, 0, 2, 4]
    assert counters.local_steps.tolist() == [0, 2, 3, 5]  # the 4 and the 6 of round 2 are too long
    assert counters.uploads.tolist() == [0, 1, 1, 2]
    assert counters.downloads.tolist() == [3, 3, 6, 6]


@given(data=st.data(), fleet=fleets(), seed=st.integers(0, 1000))
def test_what_was_counted_by_a_time_does_not_depend_on_the_horizon(
    data: st.DataObject, fleet: ClientSpeeds, seed: int
) -> None:
    policy = data.draw(policies(fleet.clients))
    if isinstance(policy, Buffered):  # an update at the horizon is a function of the horizon
        policy = replace(policy, flush_at_end=False)
    horizon = data.draw(st.integers(5, 200).map(float) | st.floats(5, 200))
    shorter = plan(policy, fleet, horizon=horizon, seed=seed)
    longer = plan(policy, fleet, horizon=horizon + data.draw(st.floats(0, 100)), seed=seed)
    times = np.append(np.linspace(0, horizon, 20), horizon)
    for counted, again in zip(count_work(shorter, times), count_work(longer, times), strict=True):
        assert counted.tolist() == again.tolist()


@pytest.mark.parametrize("horizon", [100.0, 200.0])
def test_fedbuff_is_counted_by_time_and_not_by_version(horizon: float) -> None:
    """At first four clients get a model; by 80, eleven have answered and six of them were used."""
    keys = {"algorithm": "fedbuff", "clients": 8, "selected": 4, "local_steps": 4, "buffer": 6}
    schedule = plan_seed(complete(**keys, horizon=horizon), 0).schedule
    counters = count_work(schedule, np.array([0.0, 80.0]))
    assert counters.server_steps.tolist() == [0, 1]
    assert counters.downloads.tolist() == [4, 15]
    assert counters.uploads.tolist() == [0, 11]
    assert counters.local_steps.tolist() == [0, 44]
    assert counters.contributed_steps.tolist() == [0, 24]


@pytest.mark.parametrize(
    "policy",
    [
        Buffered(buffer=1, local_steps=1, hand_out="flush", latency="none"),
        Buffered(buffer=1, local_steps=1, hand_out="flush", latency="none", max_staleness=0),
        Rounds(selected=2, local_steps=1, interaction_time=0.0),
        Polling(selected=2, local_steps=1, waiting_time=10.0, interaction_time=0.0),
        Windowed(period=10.0, local_steps=1),
    ],
)
def test_what_happens_exactly_at_the_horizon_counts(policy: Policy) -> None:
    """Of clients that need 10 and 20 per step, by every policy."""
    fleet = client_speeds(np.array([10.0, 20.0]), Deterministic())
    shorter, longer = (plan(policy, fleet, horizon=end, seed=0) for end in (100.0, 200.0))
    assert 100.0 in shorter.time
    for counted, again in zip(
        *(count_work(schedule, np.array([100.0])) for schedule in (shorter, longer)), strict=True
    ):
        assert counted.tolist() == again.tolist()


def test_an_answer_that_the_server_does_not_use_was_sent() -> None:
    """Steps of 10 and 30: the answer of client 1 at 30 is two updates old, and dropped."""
    fleet = client_speeds(np.array([10.0, 30.0]), Deterministic())
    keys = {"local_steps": 1, "latency": "none", "max_staleness": 1}
    policy = Buffered(buffer=1, hand_out="flush", **keys)  # type: ignore[arg-type]
    counters = count_work(plan(policy, fleet, horizon=35, seed=0), np.array([25.0, 35.0]))
    assert counters.uploads.tolist() == [2, 4]
    assert counters.local_steps.tolist() == [2, 4]
    assert counters.contributed_steps.tolist() == [2, 3]
    window = plan(Windowed(period=20.0, local_steps=1), fleet, horizon=39, seed=0)
    counters = count_work(window, np.array([39.0]))
    assert counters.uploads.tolist() == [3]  # at 10, 30 and 30, of which the tick at 20 used one
    assert counters.contributed_steps.tolist() == [1]
    rounds = Rounds(selected=2, local_steps=2, deadline=40.0, interaction_time=5.0)
    counters = count_work(plan(rounds, fleet, horizon=80, seed=0), np.array([39.0, 45.0]))
    assert counters.uploads.tolist() == [1, 1]  # client 1 is stopped after one of its two steps
    assert counters.local_steps.tolist() == [2, 3]


CLIENTS = 6
OPTIONS: Mapping[str, Sequence[object]] = {  # of policies and methods: who does what when
    "step_law": ["geometric", "exponential", "deterministic"],
    "interruption": ["redraw", "resume", "keep"],
    "starts_at_zero": [False, True],
    "idle_in_interaction": [False, True],
    "strict_ties": [False, True],
    "overrun": [False, True],
    "step_count": ["durations", "literal", "literal-zero"],
    "deadline": [None, 4.0, 9.0],
    "at_deadline": ["drop", "take"],
    "round_time": ["sum", "one-draw", "mean"],
    "drop_last": [False, True],
    "buffer": [1, 3],
    "buffer_mode": ["concurrency", "block", "code", "reset"],
    "concurrency": [None, 4],
    "latency": ["client", "server", "none"],
    "distinct": [False, True],
    "max_staleness": [None, 0, 2],
    "assignment": ["uniform", "same"],
    "gradients_per_job": [1, 3],
    "window": [5.0, 7.0],
    "arrival_fraction": [0.4, 1.0],
    "client_averaging": [False, True],
}
POLLS = {
    "interruption",
    "starts_at_zero",
    "idle_in_interaction",
    "strict_ties",
    "overrun",
    "step_count",
}
ROUNDS = {"deadline", "at_deadline", "round_time", "drop_last"}


class OneByOne:
    """Lanes that train one job at a time, the last one first."""

    capacity = 9

    def __init__(self, trainer: Trainer) -> None:
        self.trainer = trainer
        self.waiting: list[tuple[int, Stack, Work]] = []

    @property
    def free(self) -> int:
        return self.capacity - len(self.waiting)

    def load(self, jobs: Ints, models: Stack, task: Ints, work: Work) -> None:
        for place, job in enumerate(jobs.tolist()):
            of = slice(place, place + 1)
            correction = None if work.correction is None else work.correction[of]
            part = Work(
                work.client[of], work.first_step[of], work.steps[of], work.rate[of], correction
            )
            self.waiting.append((job, models[of].clone(), part))

    def launch(self) -> None: ...

    def collect(self) -> Finished | None:
        if not self.waiting:
            return None
        job, start, work = self.waiting.pop()
        end = self.trainer.train(start, work)
        return Finished(np.array([job]), end, np.array([True]), StepsDone(int(work.steps[0]), 0.0))

    def halve(self) -> Ints:
        raise MemoryError


def rows_of(spec: Spec, times: Floats, end: str) -> list[Row]:
    """The rows of a run on quadratics, up to the horizon."""
    planned, initial = plan_seed(spec, 0), start_model()
    run = make_aggregator(planned.method, planned.timeline, initial)
    trainer = trainer_of(planned.method, quadratics(CLIENTS), len(initial))
    recorder = Recorder(run, 0, times, lambda model: model[:2])
    if end == "loop":
        for event in PlainLoop(run, trainer).events():
            recorder.observe(event)
        return recorder.rows()
    due = lambda _, version: recorder.due(version)  # noqa: E731
    scoring = Scoring(due, due, lambda models: models[:, :2], lambda _: recorder.next_time)
    together = end == "together"
    engine = Engine(
        [run], OneByOne(trainer), products=together, scoring=scoring if together else None
    )
    for step in engine.events(at_once=1):
        assert isinstance(step.event, ServerVersion)
        recorder.observe(step.event)
    assert engine.kept == 0
    return recorder.rows()


@pytest.mark.quick("fedbuff", "fedfix")
@pytest.mark.parametrize("name", list(our_methods()))
@given(data=st.data(), seed=st.integers(0, 1000))
@examples(12)
def test_rows_up_to_a_time_do_not_depend_on_what_comes_later(
    name: str, data: st.DataObject, seed: int
) -> None:
    """Every column of a run to this time and of a longer one."""
    base = {"algorithm": name, "clients": CLIENTS, "selected": 3, "local_steps": 3, "seed": seed}
    kind = type(bind_method(complete(**read_by({**base, "horizon": 20.0})), 0).policy())
    known = {"step_law", *options_of(our_methods()[name])}
    known |= POLLS if kind is Polling else ROUNDS if kind is Rounds else set()
    keys = {
        key: data.draw(st.sampled_from(values), key)
        for key, values in OPTIONS.items()
        if key in known and data.draw(st.booleans(), f"{key}?")
    }
    horizon = data.draw(st.integers(20, 100).map(float) | st.floats(20, 100), "horizon")
    later = horizon + data.draw(st.floats(1, 50), "more")
    end = data.draw(st.sampled_from(["loop", "engine", "together"]), "end")
    times = np.append(np.arange(0.0, horizon, 6.5), horizon)
    try:
        given_keys = read_by({**base, **keys})
        specs = [complete(**given_keys, horizon=until) for until in (horizon, later)]
        shorter, longer = (rows_of(spec, times, end) for spec in specs)
    except BadInput:  # options that contradict each other
        reject()
    if end != "together":
        assert shorter == longer
    for row, other in zip(shorter, longer, strict=True):  # products of more updates round otherwise
        numbers = [(of.loss, of.accuracy, of.variance, of.potential) for of in (row, other)]
        assert numbers[0] == pytest.approx(numbers[1], rel=1e-9, abs=1e-12)
        counts = [(*of[:6], of.contributed_steps) for of in (row, other)]
        assert counts[0] == counts[1]


@pytest.mark.quick("when updates arrive-loop", "fedavg-loop")
@pytest.mark.parametrize("end", ["loop", "engine", "stacks"])
@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("fedbuff", {"buffer": 3, "concurrency": 5}),
        ("fedbuff", {"buffer": 3, "buffer_mode": "code"}),
        ("asyncsgd", {"concurrency": 6}),
        ("fedavg", {}),
        ("favano", {}),
    ],
    ids=["fedbuff", "when updates arrive", "asyncsgd", "fedavg", "favano"],
)
def test_clients_hold_what_they_began_with_by_the_time(
    name: str, keys: dict[str, object], end: str
) -> None:
    """The variance of a row, from all server models and the times at which the jobs begin."""
    problem = Problem(name, 3, keys=keys)
    schedule = problem.schedule
    versions = torch.stack([problem.initial, *(seen.server for seen in problem.alone[1:])])
    times = evaluation_times(known(problem.spec.run.horizon), 1.5, float(schedule.time[-1]))
    run = problem.aggregator()
    recorder = Recorder(run, 0, times, lambda model: torch.zeros(2, dtype=model.dtype))
    with one_thread():
        if end == "loop":
            for event in PlainLoop(run, problem.trainer).events():
                recorder.observe(event)
        else:
            engine = Engine([run], shuffled([problem], 20))
            if end == "stacks":
                due = lambda _, version: recorder.due(version)  # noqa: E731
                nothing = lambda models: models.new_zeros(len(models), 2)  # noqa: E731
                scoring = Scoring(due, due, nothing, lambda _: recorder.next_time)
                lanes = stack_lanes([problem], 20)
                engine = Engine([run], lanes, products=True, scoring=scoring)
            for step in engine.events(at_once=1):
                assert isinstance(step.event, ServerVersion)
                recorder.observe(step.event)
            assert engine.kept == 0
    changed = 0
    for row in recorder.rows():
        held = []
        for client in range(schedule.clients):
            mine = np.flatnonzero((schedule.client == client) & (schedule.begin <= row.time))
            last = mine[np.lexsort((schedule.first_step[mine], schedule.begin[mine]))][-1:]
            held.append(int(schedule.start_version[last][0]) if len(last) else -1)
        parameters = problem.flat.layout.parameters
        server = versions[row.server_step]
        distance = (versions[np.array(held) + 1] - server)[:, :parameters].square().sum()
        assert row.variance == pytest.approx(float(distance), rel=1e-9, abs=1e-12)
        changed += row.variance > 0
    assert changed > 3


def test_a_contact_is_one_message_each_way() -> None:
    policy = Polling(selected=4, local_steps=3)
    schedule = plan(policy, two_speeds(10), horizon=70, seed=0)
    counters = count_work(schedule, np.arange(0.0, 71.0, 7.0))
    assert counters.uploads.tolist() == [4 * k for k in range(11)]
    assert counters.downloads.tolist() == [10 + 4 * k for k in range(11)]
    assert counters.first_downloads.tolist() == [10] * 11


def test_a_client_that_begins_late_gets_its_first_model_then() -> None:
    """Two of four clients per round: the last one to be drawn has its first model in its round."""
    schedule = plan(Rounds(selected=2, local_steps=2), two_speeds(4), horizon=200, seed=0)
    seen: set[int] = set()
    first = []
    for version in range(-1, schedule.updates):
        seen |= set(schedule.client[schedule.start_version == version].tolist())
        first.append(len(seen))
    assert 2 == first[0] < first[-1] == 4
    times = np.append(0.0, schedule.time)
    assert count_work(schedule, times).first_downloads.tolist() == first


@st.composite
def sending(draw: st.DrawFn) -> tuple[ClientSpeeds, Schedule]:
    """Any schedule, of which some client updates are lost and some are sent twice."""
    fleet = draw(fleets())
    policy = draw(policies(fleet.clients))
    schedule = plan(policy, fleet, horizon=draw(st.floats(5, 200)), seed=draw(st.integers(0, 99)))
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    return fleet, replace(schedule, uploads=rng.integers(0, 3, len(schedule.client)))


def some_jobs(schedule: Schedule, jobs: Ints | Mask, check: bool = True) -> Schedule:
    """These jobs alone, in this order."""
    columns = ("client", "steps", "start_version", "used_by", "first_step", "begin", "finish")
    chosen = {name: getattr(schedule, name)[jobs] for name in (*columns, "uploads")}
    return replace(schedule, **chosen, check=check)


@given(data=st.data(), given_schedule=sending())
@examples(60)
def test_what_servers_and_clients_count_agrees(
    data: st.DataObject, given_schedule: tuple[ClientSpeeds, Schedule]
) -> None:
    """Messages, steps and joules of all clients together, at any times, to the last message."""
    fleet, schedule = given_schedule
    times = np.sort(data.draw(st.lists(st.floats(0, 220), min_size=1, max_size=5)))
    whole = count_work(schedule, times)
    each = [
        count_work(some_jobs(schedule, schedule.client == client), times)
        for client in range(fleet.clients)
    ]
    for name in ("local_steps", "contributed_steps", "uploads", "downloads", "first_downloads"):
        assert getattr(whole, name).tolist() == sum(getattr(one, name) for one in each).tolist()
    for place, time in enumerate(times.tolist()):
        sent = received = 0
        for finish, copies in zip(schedule.finish, schedule.uploads, strict=True):  # type: ignore[arg-type]
            sent += copies if finish <= time * (1 + 1e-9) else 0
        for begin in schedule.begin:
            received += begin <= time * (1 + 1e-9)
        assert (sent, received) == (whole.uploads[place], whole.downloads[place])

    size = MessageSize(later=800, first=1600)
    rng = np.random.default_rng(fleet.clients)
    energy = Energy(rng.uniform(0, 5, fleet.clients), rng.uniform(0, 1e-3, fleet.clients))
    by_hand = sum(
        energy.per_step[client] * work.local_steps
        + energy.per_byte[client]
        * (100.0 * (work.uploads + work.downloads) + 100.0 * work.first_downloads)
        for client, work in enumerate(each)
    )
    np.testing.assert_allclose(joules(schedule, energy, size, times), by_hand, rtol=1e-12)


@given(data=st.data(), given_schedule=sending())
@examples(40)
def test_joules_do_not_depend_on_the_order_of_the_jobs(
    data: st.DataObject, given_schedule: tuple[ClientSpeeds, Schedule]
) -> None:
    """To the bit: a schedule that grows knows its jobs in another order."""
    fleet, schedule = given_schedule
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    energy = Energy(rng.uniform(0, 5, fleet.clients), rng.uniform(0, 1e-3, fleet.clients))
    order, times = rng.permutation(len(schedule.client)), np.linspace(0, 200, 7)
    size = MessageSize(3200, 6400)
    plans = schedule, some_jobs(schedule, order, check=False)
    first, again = (joules(plan, energy, size, times).tolist() for plan in plans)
    assert first == again


def test_joules_of_jobs_of_no_steps_do_not_depend_on_the_order() -> None:
    """Such a job ends when it begins, which is when the next one of its client begins."""
    clients, zeros = np.array([0, 1, 0, 1]), np.zeros(4)
    schedule = Schedule(
        clients=2, local_steps=1, time=np.zeros(1), wasted_steps=np.zeros(1, np.int64),
        client=clients, steps=np.array([0, 0, 1, 1]), start_version=np.array([-1, -1, 0, 0]),
        used_by=np.array([0, 0, 1, 1]), first_step=np.zeros(4, np.int64), begin=zeros,
        finish=np.array([0.0, 0.0, np.inf, np.inf]), uploads=np.zeros(4, np.int64),
    )  # fmt: skip
    energy, size = Energy(np.zeros(2), np.array([0.1, 0.3])), MessageSize(8, 16)
    orders = [np.array(order) for order in itertools.permutations(range(4))]
    plans = [some_jobs(schedule, order, check=False) for order in orders]
    assert len({joules(plan, energy, size, np.zeros(1))[0] for plan in plans}) == 1


def test_energy_of_a_synchronous_run_by_hand() -> None:
    """Two steps of each of three clients a round, rounds end at 13 and 26; a message has 32 B."""
    aggregator, schedule = three_of_three()
    times = evaluation_times(20, 5, float(schedule.time[-1]))
    energy = Energy(np.array([1.0, 2.0, 4.0]), np.array([0.5, 0.0, 0.25]))
    score: Callable[[Vector], Tensor] = lambda model: torch.zeros(2)  # noqa: E731
    recorder = Recorder(aggregator, 4, times, score, energy=energy)
    for event in PlainLoop(aggregator, quadratics(3)).events():
        recorder.observe(event)
    rows = recorder.rows()
    message = 0.75 * aggregator.message_bits / 8
    assert rows[0].energy == pytest.approx(message)
    ended = {row.time: row.energy for row in rows}
    assert ended[15.0] == pytest.approx(2 * 7.0 + 3 * message)  # the second models are sent
    assert ended[26.0] == pytest.approx(2 * 2 * 7.0 + 4 * message)
    assert [row.local_steps for row in rows][-1] == 12


def test_energy_is_in_the_digest_of_a_row() -> None:
    row = Row(0, 7.0, 1, 3, 64, 128, 2.5, {"accuracy": 0.25}, 0.0, 0.0, 3)
    digests = {link("", row._replace(energy=energy)) for energy in (None, 0.0, 1.0)}
    assert len(digests) == 3
