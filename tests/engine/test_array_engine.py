"""Many runs as arrays: the same models as one run after the other, whatever shares the lanes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from favano.engine import (
    ArrayEngine,
    Moment,
    Replay,
    Scoring,
    Spread,
    Step,
    array_engine,
    array_models,
    lane_queue,
    replayed,
)
from favano.engine.aggregation import is_blend
from favano.errors import NonFiniteUpdate
from favano.methods import State
from favano.training import FlatModel, LaneStack, LocalRule, LoopTrainer, Task
from favano.types import Stack
from tests.engine.test_aggregation import BLENDS
from tests.engine.test_pool import Problem


def make(names: list[str], seeds: list[int]) -> list[Problem]:
    """Problems with their own splits and starts on the same data."""
    problems = [Problem(name, seed) for name, seed in zip(names, seeds, strict=True)]
    data = problems[0].trainer.task
    for problem in problems:
        task = Task(data.features, data.labels, problem.trainer.task.batches)
        problem.trainer = LoopTrainer(problem.flat, task, problem.trainer.rule)
    return problems


def stacks(problems: list[Problem], capacity: int, number: int = 2) -> list[LaneStack]:
    trainers = [problem.trainer for problem in problems]
    return [LaneStack(problems[0].flat, trainers, capacity) for _ in range(number)]


def stepped(problems: list[Problem], *, capacity: int, at_once: int) -> list[Step]:
    """All moments, with copies of their models."""
    runs = ArrayEngine([p.replay() for p in problems], stacks(problems, capacity, number=at_once))
    return [copied(step) for step in runs.steps(at_once=at_once)]


def copied(step: Step) -> Step:
    if isinstance(step.moment, NonFiniteUpdate):
        return step
    return Step(step.run, step.moment._replace(server=step.moment.server.clone()))


def moments(steps: list[Step], run: int) -> list[Moment]:
    return [s.moment for s in steps if s.run == run and isinstance(s.moment, Moment)]


def check(problems: list[Problem], steps: list[Step]) -> None:
    for run, problem in enumerate(problems):
        found = moments(steps, run)
        assert [moment.version for moment in found] == list(range(-1, problem.schedule.updates))
        for moment, expected in zip(found, problem.alone(), strict=True):
            torch.testing.assert_close(moment.server, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(("capacity", "at_once"), [(1, 1), (3, 2), (50, 3)])
@pytest.mark.parametrize("name", BLENDS)
def test_the_array_engine_equals_the_plain_loop(name: str, capacity: int, at_once: int) -> None:
    """In float64, with BatchNorm, on every method that blends models."""
    problems = make([name] * 3, [0, 1, 2])
    assert all(is_blend(problem.method) for problem in problems)
    check(problems, stepped(problems, capacity=capacity, at_once=at_once))


def test_counters_of_clients_stay_whole_in_both_engines() -> None:
    """With PyTorch's BatchNorm, whose counter QuAFL's clients carry on with."""
    problem = Problem("quafl", 0, nn.BatchNorm2d)
    replay = problem.replay()
    found = moments(
        [copied(s) for s in ArrayEngine([replay], stacks([problem], 5)).steps(at_once=1)], 0
    )
    models = [moment.server for moment in replayed(replay, problem.trainer)]
    models += list(replay.store._own.values()) + [moment.server for moment in found]
    counters = torch.stack(models)[:, -problem.flat.layout.counters :]
    assert torch.equal(counters, counters.round())
    assert found[-1].server[-1] == models[len(found) - 1][-1] > 4


def test_all_methods_share_the_lanes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Updates with different numbers of answers are made together, or in parts."""
    problems = make(BLENDS, [1] * len(BLENDS))
    check(problems, stepped(problems, capacity=40, at_once=len(problems)))
    monkeypatch.setattr(array_engine, "_NUMBERS_AT_ONCE", 2000)
    check(problems, stepped(problems, capacity=40, at_once=len(problems)))


def test_refilling_may_wait_and_ends_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane_queue, "AHEAD", 1)
    problems = make(["favano", "quafl"], [2, 3])
    check(problems, stepped(problems, capacity=6, at_once=2))


def poisoned(problem: Problem, client: int) -> LoopTrainer:
    """The data of one client hold NaN."""
    task = problem.trainer.task
    features = task.features.clone()
    features[task.batches.parts[client]] = torch.nan
    return LoopTrainer(problem.flat, Task(features, task.labels, task.batches), LocalRule())


@pytest.mark.parametrize("name", ["favano", "quafl"])
def test_refused_answers_are_left_out(name: str) -> None:
    """The run goes on without them, as the plain loop does."""
    problem = Problem(name, 0)
    problem.trainer = poisoned(problem, 2)

    def replay() -> Replay[State]:
        found = problem.replay()
        found.non_finite = "skip"
        return found

    expected = [(m.server, m.refused.tolist()) for m in replayed(replay(), problem.trainer)]
    steps = [copied(s) for s in ArrayEngine([replay()], stacks([problem], 7)).steps(at_once=1)]
    assert any(refused for _, refused in expected)
    for moment, (server, refused) in zip(moments(steps, 0), expected, strict=True):
        assert moment.refused.tolist() == refused
        torch.testing.assert_close(moment.server, server, rtol=1e-10, atol=1e-10)


def test_a_run_that_fails_ends_and_the_others_go_on() -> None:
    bad, good = make(["favano", "favano"], [0, 1])

    def too_fast() -> Replay[State]:
        replay = bad.replay()
        replay.rates[len(replay.rates) // 3 :] = np.inf
        return replay

    with pytest.raises(NonFiniteUpdate) as raised:
        list(replayed(too_fast(), bad.trainer))
    runs = ArrayEngine([too_fast(), good.replay()], stacks([bad, good], 9))
    steps = [copied(step) for step in runs.steps(at_once=2)]
    last = [step.moment for step in steps if step.run == 0][-1]
    assert isinstance(last, NonFiniteUpdate)
    assert str(last) == str(raised.value)
    torch.testing.assert_close(moments(steps, 1)[-1].server, good.alone()[-1])
    assert runs.kept == 0


@pytest.mark.parametrize("at_once", [1 << 26, 100])
def test_what_is_measured_together_is_that_of_the_plain_loop(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of runs of different methods, every third moment, in one piece or in many."""
    monkeypatch.setattr(array_models, "_NUMBERS_AT_ONCE", at_once)
    problems = make(["favano", "quafl", "fedbuff"], [3, 4, 5])
    parameters = problems[0].flat.layout.parameters
    expected: dict[tuple[int, int], Spread] = {}
    for run, problem in enumerate(problems):
        replay = problem.replay()
        for at in replayed(replay, problem.trainer):
            expected[run, at.version] = replay.store.spread(at.server, parameters)
    together = []

    def score(models: Stack) -> Tensor:
        together.append(len(models))
        return models[:, :2]

    scoring = Scoring(lambda run, moment: moment.version % 3 == 2, score)
    runs = ArrayEngine([p.replay() for p in problems], stacks(problems, 5), scoring=scoring)
    found = [(step.run, step.moment) for step in runs.steps(at_once=3)]
    seen = 0
    for run, moment in found:
        assert isinstance(moment, Moment)
        assert (moment.measured is None) == (moment.version % 3 != 2)
        if moment.measured is not None:
            spread, server = expected[run, moment.version], moment.measured.server
            numbers = [*server[:2].tolist(), spread.variance, spread.potential]
            assert moment.measured.numbers.tolist() == pytest.approx(numbers, rel=1e-10, abs=1e-20)
            torch.testing.assert_close(moment.measured.mean, spread.mean, rtol=1e-10, atol=1e-10)
            seen += 1
    assert seen == sum(together) > len(together)


def test_models_are_given_back() -> None:
    """When all runs are over nothing is kept."""
    problems = make(BLENDS, [1] * len(BLENDS))
    runs = ArrayEngine([p.replay() for p in problems], stacks(problems, 20))
    most = max(runs.kept for _ in runs.steps(at_once=2))
    assert most > 10
    assert runs.kept == 0


def on_cuda(problems: list[Problem]) -> None:
    """The same problems on a GPU."""
    data = problems[0].trainer.task
    features, labels = data.features.cuda(), data.labels.cuda()
    flat = FlatModel(problems[0].flat.module, device="cuda", dtype=torch.float64)
    for problem in problems:
        problem.flat, problem.initial = flat, problem.initial.cuda()
        task = Task(features, labels, problem.trainer.task.batches)
        problem.trainer = LoopTrainer(flat, task, problem.trainer.rule)


@pytest.mark.gpu
def test_waves_on_cuda_equal_the_plain_loop() -> None:
    problems = make(BLENDS, list(range(len(BLENDS))))
    expected = [problem.alone()[-1] for problem in problems]
    on_cuda(problems)
    steps = stepped(problems, capacity=50, at_once=3)
    for run, server in enumerate(expected):
        last = moments(steps, run)[-1].server.cpu()
        torch.testing.assert_close(last, server, rtol=1e-10, atol=1e-10)
