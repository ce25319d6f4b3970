"""Many runs on shared lanes: the same models as one after the other, whatever shares them."""

from __future__ import annotations

from functools import cache
from itertools import count, pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from favano.aggregation import Aggregator
from favano.engine import (
    Engine,
    PlainLoop,
    Scoring,
    ServerVersion,
    dispatcher,
    spread,
    updaters,
)
from favano.engine.updaters import ByProducts, walk
from favano.errors import NonFiniteUpdate
from favano.methods import State, our_methods
from favano.planning.planned import plan_seed
from favano.quantisation import Codec, Lattice, MinMax, Qsgd
from favano.schedule import VirtualClock
from favano.specification.presets import resolve
from favano.specification.spec import changed
from favano.training import (
    Finished,
    Lanes,
    LaneStack,
    LaunchResult,
    StepsDone,
    Work,
    WorkerLanes,
    one_thread,
)
from favano.training.optimisers import Optimiser
from favano.types import Buffers, Floats, Ints, Stack, Vector
from tests.engine.networks import (
    BY_LOSS,
    CLIENTS,
    Problem,
    check_on_stacks,
    on_stacks,
    same,
    seen,
    seen_of,
    shuffled,
    stack_lanes,
)
from tests.forks import FORKS

EVERY = pytest.mark.parametrize("name", list(our_methods()))
HEAVY = Optimiser(momentum=0.9, weight_decay=0.1)


@cache
def problem(name: str, seed: int) -> Problem:
    """The plain loop is asked once for all tests."""
    return Problem(name, seed)


@pytest.mark.quick("favano-3", "fedasync-3", "fedprox-3")
@pytest.mark.parametrize("capacity", [1, 3, 50])
@EVERY
def test_lanes_equal_the_plain_loop(name: str, capacity: int) -> None:
    """To the bit, since the steps are the same, whatever the order in which jobs end."""
    problems = [problem(name, seed) for seed in range(3)]
    lanes = shuffled(problems, capacity)
    runs = Engine([case.aggregator() for case in problems], lanes)
    with one_thread():
        by_run = seen_of(runs.events(at_once=2), 3)
    for moments, expected in zip(by_run, problems, strict=True):
        same(moments, expected.alone)
    assert runs.kept == 0


@pytest.mark.quick("favano-delta-(3, 2)", "scaffold-(3, 2)")
@pytest.mark.parametrize("size", [(1, 1), (3, 2), (50, 2)], ids=str)
@EVERY
def test_stacks_and_products_equal_the_plain_loop(name: str, size: tuple[int, int]) -> None:
    capacity, at_once = size
    check_on_stacks([problem(name, seed) for seed in range(1 + at_once)], capacity, at_once)


@cache
def varied() -> list[Problem]:
    """All methods, with everything that a run may have besides."""
    plain = [problem(name, seed) for seed, name in enumerate(our_methods())]
    refusing = [Problem(name, 1, poisoned=True) for name in our_methods()]
    return [
        *plain,
        *refusing,
        Problem("quafl", 2, codec=MinMax(bits=5)),
        Problem("favano", 3, codec=Lattice(dither=True)),
        Problem("scaffold", 4, codec=Qsgd(bits=5), poisoned=True),
        Problem("quafl", 5, codec=Lattice(), poisoned=True),
        Problem("favano", 6, buffers="local"),
        Problem("asyncfeded", 7, buffers="local", poisoned=True),
        Problem("asofed", 8, buffers="local"),
        Problem("fedbuff", 9, buffers="local", codec=MinMax(bits=5), poisoned=True),
        *optimised(),
    ]


def optimised() -> list[Problem]:
    """Optimisers that begin anew in each job, and some whose state stays with the clients.

    Gradients of biases before BatchNorm are rounding errors; a large epsilon keeps them small.
    """
    fresh = [Optimiser("adamw", 0.9, beta2=0.99, epsilon=1e-2, weight_decay=0.1), HEAVY]
    kept = [Optimiser("adam", 0.8, beta2=0.9, epsilon=1e-2, state="kept"),
            Optimiser(momentum=0.5, nesterov=True, clip=0.3, state="kept")]  # fmt: skip
    return [
        *(
            Problem(name, 1, optimiser=optimiser)
            for name in ("fedbuff", "asofed")
            for optimiser in fresh
        ),
        Problem("favano", 2, optimiser=kept[0], poisoned=True),
        Problem("quafl", 3, optimiser=kept[1], codec=MinMax(bits=5)),
        Problem("asofed", 4, optimiser=kept[0], poisoned=True),
        Problem("asyncfeded", 5, optimiser=kept[1], buffers="local"),
        Problem("fedavg", 6, server=["median", "momentum:0.9:0.5"]),
        Problem("scaffold", 7, server=["yogi:0.1:0.9:0.1:0.9"]),
        Problem("fedbuff", 8, server=["adam:0.1:0.9:0.1:0.9"], poisoned=True),
    ]


@pytest.mark.slow
@pytest.mark.parametrize(("capacity", "at_once"), [(5, 7), (40, 100)])
def test_no_run_changes_another(capacity: int, at_once: int) -> None:
    """Memories, corrections, codecs, refusals and schedules that grow, in one engine."""
    problems = varied()
    check_on_stacks(problems, capacity, at_once)
    assert all(any(event.refused for event in p.alone) for p in problems if p.poisoned)


@pytest.mark.slow
@pytest.mark.parametrize("every", [1, 3])
def test_nor_does_it_on_other_lanes(every: int) -> None:
    problems = varied()[::every]
    lanes = shuffled(problems, 20)
    with one_thread():
        runs = Engine([case.aggregator() for case in problems], lanes)
        by_run = seen_of(runs.events(at_once=len(problems)), len(problems))
    for moments, expected in zip(by_run, problems, strict=True):
        same(moments, expected.alone)
    assert lanes.most > 10  # jobs of several updates and runs are under way together


@pytest.mark.slow
def test_products_may_be_made_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Updates with different numbers of answers are made together, or in parts."""
    monkeypatch.setattr(updaters, "_NUMBERS_AT_ONCE", 2000)
    check_on_stacks(varied(), 40, 100)


def test_few_end_models_may_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatcher, "AHEAD", 1)
    check_on_stacks([problem("favano", 2), problem("quafl", 3)], 6, 2)


@pytest.mark.parametrize(
    ("name", "buffers", "codec"),
    [
        ("asofed", "average", None),
        ("favano", "local", None),
        ("quafl", "local", None),
        ("scaffold", "local", None),
        ("asyncfeded", "local", None),
        ("quafl", "local", MinMax(bits=5)),
    ],
)
def test_what_clients_start_from_is_that_of_the_plain_loop(
    name: str, buffers: Buffers, codec: Codec | None
) -> None:
    """Their buffers and memories at every moment, whatever is trained ahead of it."""
    case = Problem(name, buffers=buffers, codec=codec, poisoned=codec is not None)
    first, second = case.aggregator(), case.aggregator()
    lanes = shuffled([case], 20)
    with one_thread():
        expected = [starts(first, event) for event in PlainLoop(first, case.trainer).events()]
        steps = Engine([second], lanes).events(at_once=1)
        actual = [
            starts(second, step.event) for step in steps if isinstance(step.event, ServerVersion)
        ]
    assert len(actual) == len(expected)
    for version, (a, b) in enumerate(zip(actual, expected, strict=True), start=-1):
        assert torch.equal(a, b), version


def starts(run: Aggregator[State], event: ServerVersion) -> Stack:
    return run.memory.starts(np.arange(CLIENTS), event.clients.of(np.arange(CLIENTS)))


def test_a_schedule_that_grows_is_trained_ahead() -> None:
    """AsyncFedED: clients whose update is not next are under way beside the one whose it is."""
    case = problem("asyncfeded", 0)
    lanes = shuffled([case], 20)
    with one_thread():
        (moments,) = seen_of(Engine([case.aggregator()], lanes).events(at_once=1), 1)
    same(moments, case.alone)
    clock = case.planned.timeline
    assert isinstance(clock, VirtualClock)
    first = np.isfinite(clock.timeline.due)  # jobs that end before the horizon
    assert lanes.most >= first.sum() > 3


@pytest.mark.parametrize("name", ["favano", "quafl", "asyncfeded"])
def test_few_models_are_kept(name: str) -> None:
    """Those of the server and the clients, and some end models; also if a schedule grows."""
    case = problem(name, 0)
    runs = Engine([case.aggregator()], shuffled([case], 1))
    with one_thread():
        kept = [runs.kept for _ in runs.events(at_once=1)]
    assert 5 < max(kept) <= 1 + CLIENTS + dispatcher.AHEAD
    assert runs.kept == 0


@FORKS
def test_worker_processes_equal_the_plain_loop() -> None:
    problems = [problem(name, 2) for name in ("favano", "fedavg", "scaffold", "asofed")]
    problems.append(Problem("quafl", 2, codec=MinMax(bits=5)))
    problems += optimised()
    trainers = [case.trainer for case in problems]
    with one_thread(), WorkerLanes(problems[0].flat, trainers, workers=2) as lanes:
        runs = Engine([case.aggregator() for case in problems], lanes)
        by_run = seen_of(runs.events(at_once=2), len(problems))
    for moments, expected in zip(by_run, problems, strict=True):
        same(moments, expected.alone)


@pytest.mark.parametrize("stacked", [False, True])
def test_a_run_that_fails_ends_and_the_others_go_on(stacked: bool) -> None:
    bad, good = Problem("favano", 0, poisoned=True), problem("favano", 1)

    def failing() -> Aggregator[State]:
        run = bad.aggregator()
        run.non_finite = "stop"
        return run

    with pytest.raises(NonFiniteUpdate) as raised, one_thread():
        list(PlainLoop(failing(), bad.trainer).events())
    lanes: Lanes = stack_lanes([bad, good], 9) if stacked else shuffled([bad, good], 9)
    runs = Engine([failing(), good.aggregator()], lanes, products=stacked)
    errors, moments = [], []
    with one_thread():
        for run, event, _ in runs.events(at_once=2):
            if isinstance(event, NonFiniteUpdate):
                errors.append((run, str(event)))
            elif run == 1 and event is not None:
                moments.append(seen(event))
    assert errors == [(0, str(raised.value))]
    same(moments, good.alone, 1e-10 if stacked else 0.0)
    assert runs.kept == 0


def test_counters_stay_whole() -> None:
    """With PyTorch's BatchNorm, whose counter QuAFL's clients carry on with."""
    case = Problem("quafl", norm=nn.BatchNorm2d)
    (moments,) = seen_of(on_stacks([case], 5).events(at_once=1), 1)
    same(moments, case.alone, 1e-10)
    models = torch.cat([torch.cat([*at.held, at.server[None]]) for at in moments])
    counters = models[:, -case.flat.layout.counters :]
    assert torch.equal(counters, counters.round())
    assert moments[-1].server[-1] > 4


# Rounds, models of the clients' own, and a method that is not linear.
ONE_BY_ONE = {"fedavg", "fedprox", "fednova", "scaffold", "quafl"}


def every_third(run: int, version: int) -> bool:
    return version % 3 == 2


@pytest.mark.quick("asyncsgd", "asyncfeded")
@EVERY
def test_updates_between_two_evaluations_may_be_made_at_once(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is evaluated is as if they were made one by one."""
    chains = []
    chain = ByProducts._chain

    def noting(self: ByProducts, run: int) -> Ints:
        jobs = chain(self, run)
        chains.append(len(self._weights(run)))
        return jobs

    def walking(*given: object) -> tuple[list[Ints], Floats]:
        used, weights = walk(*given)  # type: ignore[arg-type]
        chains.append(len(used))
        return used, weights

    monkeypatch.setattr(ByProducts, "_chain", noting)
    monkeypatch.setattr("favano.engine.updaters.walk", walking)
    problems = [problem(name, seed) for seed in range(3)]
    scoring = Scoring(every_third, every_third, lambda models: models[:, :2])
    aggregators = [case.aggregator() for case in problems]
    runs = Engine(aggregators, stack_lanes(problems, 50), products=True, scoring=scoring)
    by_run = seen_of(runs.events(at_once=2), 3)
    for moments, expected in zip(by_run, problems, strict=True):
        last = expected.alone[-1].version
        due = [at for at in moments if every_third(0, at.version) or at.version in (-1, last)]
        same(due, [*expected.alone[:1], *expected.alone[3:-1:3], expected.alone[-1]], 1e-10)
    assert runs.kept == 0
    assert (max(chains, default=0) > 1) == (name not in ONE_BY_ONE)


OWN = """
from favano.methods.fedfix import FedFix

class KeepsHalf(FedFix):
    def next_client_model(self, server, own):
        return (server + own) / 2
"""


@pytest.mark.slow
def test_own_models_are_kept_also_after_an_update_without_answers(tmp_path: Path) -> None:
    """Such an update says nothing of what clients continue from."""
    path = tmp_path / "own.py"
    path.write_text(OWN)
    problems = [Problem(f"{path}:KeepsHalf", seed, keys={"window": 0.5}) for seed in range(3)]
    steps = [np.diff(case.aggregator().schedule.offsets) for case in problems]
    assert all((some == 0).any() for some in steps)
    scoring = Scoring(every_third, every_third, lambda models: models[:, :2])
    aggregators = [case.aggregator() for case in problems]
    runs = Engine(aggregators, stack_lanes(problems, 50), products=True, scoring=scoring)
    for moments, expected in zip(seen_of(runs.events(at_once=3), 3), problems, strict=True):
        by_version = {at.version: at for at in expected.alone}
        same(moments, [by_version[at.version] for at in moments], 1e-10)


@pytest.mark.parametrize("seconds", [0.0, 1.0])
def test_updates_that_are_not_evaluated_are_told_now_and_then(
    seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Progress and checkpoints hear of all local steps."""
    clock = count(step=seconds)
    monkeypatch.setattr("favano.engine.reporter.perf_counter", lambda: next(clock))
    problems = [Problem("quafl", seed) for seed in range(2)]  # its updates are made one by one
    scoring = Scoring(lambda *_: False, lambda *_: False, lambda models: models[:, :2])
    aggregators = [case.aggregator() for case in problems]
    runs = Engine(aggregators, stack_lanes(problems, 20), products=True, scoring=scoring)
    steps = [0, 0]
    told: list[list[int]] = [[], []]
    for run, event, _ in runs.events(at_once=2):
        assert isinstance(event, ServerVersion)
        told[run].append(event.version)
        steps[run] += event.steps
    for run, case in enumerate(problems):
        versions = [at.version for at in case.alone]
        assert told[run] == (versions if seconds else [*versions[:2], *versions[-2:]])
        assert steps[run] == case.aggregator().schedule.used_steps


def test_local_steps_are_told_when_they_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not when an update uses them: lanes work ahead, and short runs would seem faster."""
    problems = [Problem("favano", seed) for seed in range(4)]
    lanes = stack_lanes(problems, 40)
    launched: list[int] = []  # steps of all lanes
    launch, collect, collected = lanes._stack.launch, lanes.collect, 0

    def counted_launch() -> LaunchResult:
        launched.append(0)
        return launch()

    def counted_collect() -> Finished | None:
        nonlocal collected
        collected += launched.pop(0) if launched else 0
        return collect()

    def count_lanes(stack: LaneStack, some: Ints, count: int, length: int) -> None:
        launched[-1] += len(some)

    monkeypatch.setattr(lanes._stack, "launch", counted_launch)
    monkeypatch.setattr(lanes, "collect", counted_collect)
    monkeypatch.setattr(LaneStack, "_launch", count_lanes)
    told = unused = 0
    aggregators = [case.aggregator() for case in problems]
    for step in Engine(aggregators, lanes, products=True).events(at_once=3):
        told += step.steps_done.steps
        assert told == collected
        assert isinstance(step.event, ServerVersion)
        unused += step.steps_done.steps - step.event.steps
        assert unused >= 0
    assert told == sum(aggregator.schedule.used_steps for aggregator in aggregators)


def test_refusals_between_two_evaluations_are_told() -> None:
    problems = [Problem(name, 1, poisoned=True) for name in ("favano", "quafl", "fedasync")]
    scoring = Scoring(every_third, every_third, lambda models: models[:, :2])
    aggregators = [case.aggregator() for case in problems]
    runs = Engine(aggregators, stack_lanes(problems, 20), products=True, scoring=scoring)
    for moments, expected in zip(seen_of(runs.events(at_once=2), 3), problems, strict=True):
        refused = [client for at in moments for client in at.refused]
        assert refused == [client for at in expected.alone for client in at.refused] != []


def test_runs_are_evaluated_while_lanes_are_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless a run goes on before the next launch, or is over."""
    monkeypatch.setattr("favano.training.stack_lanes._QUEUED", 1)
    problems = [problem("favano", seed) for seed in range(3)]
    lanes, events = stack_lanes(problems, 5), list[str]()
    launch, collect = lanes.launch, lanes.collect

    def launching() -> None:
        events.append("launch")
        launch()

    def collecting() -> Finished | None:
        events.append("collect")
        return collect()

    def score(models: Stack) -> Tensor:
        events.append("score")
        return models[:, :2]

    monkeypatch.setattr(lanes, "launch", launching)
    monkeypatch.setattr(lanes, "collect", collecting)
    aggregators = [case.aggregator() for case in problems]
    scoring = Scoring(every_third, every_third, score)
    list(Engine(aggregators, lanes, products=True, scoring=scoring).events(at_once=3))
    before = [first for first, then in pairwise(events) if then == "score"]
    assert len(before) > 5
    assert before.count("launch") > 0.8 * len(before)


@pytest.mark.parametrize("at_once", [1 << 26, 100])
def test_what_is_measured_together_is_that_of_the_plain_loop(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of runs of different methods, every third moment, in one piece or in many."""
    monkeypatch.setattr(spread, "_NUMBERS_AT_ONCE", at_once)
    problems = [problem(name, 3) for name in ("favano", "quafl", "asofed")]
    expected = {}
    for run, case in enumerate(problems):
        for at in PlainLoop(case.aggregator(), case.trainer).events():
            expected[run, at.version] = at.clients.spread(at.server)
    together = []

    def score(models: Stack) -> Tensor:
        together.append(len(models))
        return models[:, :2]

    scoring = Scoring(every_third, every_third, score)
    aggregators = [case.aggregator() for case in problems]
    runs = Engine(aggregators, stack_lanes(problems, 5), products=True, scoring=scoring)
    measured = 0
    for run, event, _ in runs.events(at_once=3):
        assert isinstance(event, ServerVersion)
        assert bool(event.measured) == (event.version % 3 == 2)
        for evaluated in event.measured:
            wanted, server = expected[run, event.version], evaluated.server
            assert torch.equal(server, event.server)
            numbers = torch.cat([server[:2], wanted.distances])
            torch.testing.assert_close(evaluated.numbers, numbers, rtol=1e-10, atol=1e-20)
            torch.testing.assert_close(evaluated.mean, wanted.mean, rtol=1e-10, atol=1e-10)
            measured += 1
    assert measured == sum(together) > len(together)


class Counting:
    """Lanes that train nothing, and finish the oldest or the newest of their jobs."""

    def __init__(self, capacity: int, *, newest: bool) -> None:
        self.capacity, self.newest, self.given = capacity, newest, 0
        self.waiting: list[tuple[int, Vector, int]] = []
        self.busy: list[int] = []

    @property
    def free(self) -> int:
        return self.capacity - len(self.waiting)

    def load(self, jobs: Ints, models: Stack, task: Ints, work: Work) -> None:
        self.given += len(jobs)
        self.waiting += zip(jobs.tolist(), models, work.steps.tolist(), strict=True)

    def launch(self) -> None:
        self.busy.append(len(self.waiting))

    def collect(self) -> Finished | None:
        if not self.waiting:
            return None
        job, model, steps = self.waiting.pop(-1 if self.newest else 0)
        return Finished(np.array([job]), model[None], np.array([True]), StepsDone(steps, 0.0))

    def halve(self) -> Ints:
        raise MemoryError


def polled(clients: int, selected: int, horizon: float = 120.0) -> Aggregator[State]:
    """FAVANO with so many clients, of which so many are asked at a time."""
    case = problem("favano", 0)
    keys = {"clients": clients, "selected": selected, "horizon": horizon}
    planned = plan_seed(resolve(changed(case.spec, keys)), 0)
    return Aggregator(
        planned.method, planned.schedule, case.flat.layout, planned.rates, case.initial
    )


def test_look_ahead_is_bounded() -> None:
    """While the job that is due first takes long, few end models wait for later updates."""
    run, lanes = polled(400, 4, 700.0), Counting(capacity=5, newest=True)
    trained, ahead = run.schedule.steps[: run.schedule.jobs] > 0, 0
    for step in Engine([run], lanes).events(at_once=1):
        assert isinstance(step.event, ServerVersion)
        used = trained & (run.schedule.used_by[: run.schedule.jobs] <= step.event.version)
        ahead = max(ahead, lanes.given - int(used.sum()))
    assert 15 < ahead <= 5 * 5


def test_no_lane_is_idle_however_many_clients_an_update_asks() -> None:
    """What an update itself needs is not held back, be it more than is kept for later ones."""
    lanes = Counting(capacity=3, newest=False)
    list(Engine([polled(100, 40)], lanes).events(at_once=1))
    assert len(lanes.busy) > 400
    assert np.mean(np.array(lanes.busy) == 3) > 0.99


@pytest.mark.gpu
def test_cuda_equals_the_plain_loop() -> None:
    names = list(our_methods())
    problems = [Problem(name, seed, device="cuda") for seed, name in enumerate(names)]
    by_run = seen_of(on_stacks(problems, 50).events(at_once=3), len(names))
    for seed, name in enumerate(names):
        same(by_run[seed], problem(name, seed).alone, 1e-10)


def test_losses_are_those_before_each_step() -> None:
    """By a loop of its own, and what a policy decides by them: some dropped, some cancelled."""
    case = problem(BY_LOSS, 3)
    flat, task, means = case.trainer.model, case.trainer.task, np.full(1, np.nan)
    client, first, steps = np.array([2]), np.array([1]), np.array([5])
    work = Work(client, first, steps, np.array([0.1]), losses=means)
    with one_thread():
        case.trainer.train(case.initial[None], work)
        flat.load(case.initial)
        flat.module.train()
        optimiser, losses = torch.optim.SGD(flat.module.parameters(), 0.1), []
        for step in range(1, 6):
            features, labels = task.batch(2, step, torch.float64)
            loss = torch.nn.functional.cross_entropy(flat.module(features), labels)
            optimiser.zero_grad(set_to_none=False)
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            losses.append(float(loss.detach()))
        run = case.aggregator()
        seen_of(Engine([run], shuffled([case], 3)).events(at_once=1), 1)
    assert means[0] == pytest.approx(np.mean(losses), rel=1e-12)
    assert len(run.timeline.dropped) > 3
    assert (run.schedule.steps[run.schedule.jobs :] < 4).any()
