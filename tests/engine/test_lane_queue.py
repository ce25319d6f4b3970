"""Memory that runs short in the middle of a run: fewer lanes, the same models."""

from __future__ import annotations

import weakref
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from favano.engine import ArrayEngine, Moment, Scoring, array_engine, model_rows
from favano.engine.aggregation import new_own
from favano.engine.model_rows import ModelRows
from favano.engine.scoring import UNSCORED
from favano.models.norm import BatchNorm2d
from favano.training import LaneStack
from favano.types import Stack
from tests.engine import test_pool
from tests.engine.test_aggregation import BLENDS
from tests.engine.test_array_engine import check, copied, make, on_cuda
from tests.engine.test_pool import Problem


class Short:
    """Fails at some calls of a function."""

    def __init__(self, act: Callable[..., object], at: set[int]) -> None:
        self.act, self.at, self.calls, self.failed = act, at, 0, 0

    def __call__(self, *given: object) -> object:
        self.calls += 1
        if self.calls in self.at:
            self.failed += 1
            raise torch.cuda.OutOfMemoryError
        return self.act(*given)


class Making:
    """Makes stacks, and notes of how many lanes; no stack of before may be left in memory."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = problems
        self.capacities: list[int] = []
        self.made: list[weakref.ref[LaneStack]] = []

    def __call__(self, capacity: int) -> list[LaneStack]:
        assert not any(one() for one in self.made)
        trainers = [problem.trainer for problem in self.problems]
        stacks = [LaneStack(self.problems[0].flat, trainers, capacity) for _ in range(2)]
        self.capacities.append(capacity)
        self.made += [weakref.ref(stack) for stack in stacks]
        return stacks


def run(problems: list[Problem], making: Making, scoring: Scoring = UNSCORED) -> None:
    """All runs to their end, and equal to the plain loop."""
    replays = [problem.replay() for problem in problems]
    runs = ArrayEngine(replays, making(8), scoring=scoring, rows=1, fewer=making)
    check(problems, [copied(step) for step in runs.steps(at_once=3)])
    assert runs.kept == 0


@pytest.mark.parametrize("at", [{1}, {2}, {7}, {5, 6, 12}])
@pytest.mark.parametrize("after", [True, False])
def test_a_launch_that_fails_is_made_again_with_half_the_lanes(
    at: set[int], after: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether some lanes were stepped already or none."""
    whole = LaneStack.launch

    short = Short(whole, at)

    def launch(stack: LaneStack) -> object:
        if after and short.calls + 1 in at:
            whole(stack)
        return short(stack)

    monkeypatch.setattr(LaneStack, "launch", launch)
    problems = make(["favano", "quafl", "fedbuff"], [0, 1, 2])
    making = Making(problems)
    run(problems, making)
    assert short.failed == len(at)
    assert making.capacities == [8, 4, 2, 1][: 1 + len(at)]


def test_all_methods_survive(monkeypatch: pytest.MonkeyPatch) -> None:
    short = Short(LaneStack.launch, {4})
    monkeypatch.setattr(LaneStack, "launch", lambda stack: short(stack))
    problems = make(BLENDS, list(range(len(BLENDS))))
    run(problems, Making(problems))
    assert short.failed == 1


@pytest.mark.parametrize("at", [{2}, {4}, {6, 7}])  # the first is the reservation
def test_rows_that_cannot_grow_make_lanes_give_way(
    at: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_rows, "_FIRST_ROWS", 1)
    monkeypatch.setattr(model_rows, "_MOST_BYTES", 1)
    short = Short(ModelRows._grow, at)
    monkeypatch.setattr(ModelRows, "_grow", lambda rows, missing: short(rows, missing))
    problems = make(["favano", "quafl", "fedbuff"], [0, 1, 2])
    making = Making(problems)
    run(problems, making)
    assert short.failed == len(at)
    assert making.capacities == [8, 4, 2][: 1 + len(at)]


@pytest.mark.parametrize("at", [{1}, {2, 9}])
def test_so_does_an_update(at: set[int], monkeypatch: pytest.MonkeyPatch) -> None:
    short = Short(new_own, at)
    monkeypatch.setattr(array_engine, "new_own", short)
    problems = make(["favano", "quafl", "fedbuff"], [0, 1, 2])
    run(problems, Making(problems))
    assert short.failed == len(at)


def test_so_does_an_evaluation() -> None:
    def score(models: Stack) -> Tensor:
        return models[:, :2]

    short = Short(score, {1, 3})
    scoring = Scoring(lambda run, moment: True, short)  # type: ignore[arg-type]
    problems = make(["favano", "quafl"], [0, 1])
    run(problems, Making(problems), scoring)
    assert short.failed == 2


def test_with_one_lane_left_it_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    short = Short(LaneStack.launch, set(range(5, 100)))
    monkeypatch.setattr(LaneStack, "launch", lambda stack: short(stack))
    problems = make(["favano"], [0])
    making = Making(problems)
    with pytest.raises(torch.cuda.OutOfMemoryError):
        run(problems, making)
    assert making.capacities == [8, 4, 2, 1]


def wide(norm: type[nn.Module]) -> nn.Module:
    """A model of 8 MB in float64."""
    features = [nn.Conv2d(1, 3, 3), BatchNorm2d(3), nn.ReLU(), nn.Flatten()]
    return nn.Sequential(*features, nn.Linear(48, 20_000), nn.Linear(20_000, 4))


@pytest.mark.gpu
def test_a_full_gpu_makes_lanes_give_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Real memory: 2 GB of lanes, and half a gigabyte for all that is to come."""
    monkeypatch.setattr(test_pool, "network", wide)
    problems = make(["favano", "quafl", "fedbuff"], [0, 1, 2])
    expected = [problem.alone()[-1] for problem in problems]
    on_cuda(problems)
    making = Making(problems)
    runs = ArrayEngine([problem.replay() for problem in problems], making(64), rows=1, fewer=making)
    torch.cuda.empty_cache()
    _, total = torch.cuda.mem_get_info()
    allowed = torch.cuda.memory_reserved() + (512 << 20)
    torch.cuda.set_per_process_memory_fraction(allowed / total)
    last: dict[int, Tensor] = {}
    try:
        for run, moment in runs.steps(at_once=3):
            assert isinstance(moment, Moment)
            last[run] = moment.server.cpu()
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert making.capacities[-1] < 64
    for run, server in enumerate(expected):
        torch.testing.assert_close(last[run], server, rtol=1e-10, atol=1e-10)
