"""Memory that runs short in the middle of a run: fewer lanes, the same models."""

from __future__ import annotations

import weakref
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from favano.engine import Engine, Scoring, ServerVersion, model_rows, products
from favano.engine.model_rows import ModelRows
from favano.engine.products import new_own
from favano.methods import our_methods
from favano.models.norm import BatchNorm2d
from favano.training import LaneStack, StackLanes
from favano.types import Stack
from tests.engine import networks
from tests.engine.networks import Problem, same, seen_of

NAMES = ("favano", "quafl", "fedbuff")


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
    """Makes stacks, and notes of how many lanes; none of before may be left in memory."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = problems
        self.capacities: list[int] = []
        self.made: list[weakref.ref[LaneStack]] = []

    def __call__(self, capacity: int) -> LaneStack:
        assert not any(reference() for reference in self.made)
        trainers = [problem.trainer for problem in self.problems]
        stack = LaneStack(self.problems[0].flat, trainers, capacity)
        self.capacities.append(capacity)
        self.made.append(weakref.ref(stack))
        return stack


def run(problems: list[Problem], making: Making, scoring: Scoring | None = None) -> None:
    """All runs to their end, and equal to the plain loop."""
    runs = engine(problems, making, 8, scoring)
    by_run = seen_of(runs.events(at_once=3), len(problems))
    for problem, moments in zip(problems, by_run, strict=True):
        same(moments, problem.alone, 1e-10)
    assert runs.kept == 0


def engine(
    problems: list[Problem], making: Making, capacity: int, scoring: Scoring | None = None
) -> Engine:
    aggregators = [problem.aggregator() for problem in problems]
    lanes = StackLanes(making(capacity), making)
    return Engine(aggregators, lanes, products=True, scoring=scoring, rows=1)


def three() -> list[Problem]:
    return [Problem(name, seed) for seed, name in enumerate(NAMES)]


@pytest.mark.quick("*-{2}")
@pytest.mark.parametrize("at", [{1}, {2}, {7}, {5, 6, 12}], ids=str)
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
    problems = three()
    making = Making(problems)
    run(problems, making)
    assert short.failed == len(at)
    assert making.capacities == [8, 4, 2, 1][: 1 + len(at)]


@pytest.mark.slow
def test_all_methods_survive(monkeypatch: pytest.MonkeyPatch) -> None:
    short = Short(LaneStack.launch, {4})
    monkeypatch.setattr(LaneStack, "launch", lambda *given: short(*given))
    problems = [Problem(name, seed) for seed, name in enumerate(our_methods())]
    run(problems, Making(problems))
    assert short.failed == 1


@pytest.mark.quick("{6, 7}")
@pytest.mark.parametrize("at", [{2}, {4}, {6, 7}], ids=str)  # the first is the reservation
def test_rows_that_cannot_grow_make_lanes_give_way(
    at: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_rows, "_FIRST_ROWS", 1)
    monkeypatch.setattr(model_rows, "_MOST_BYTES", 1)
    short = Short(ModelRows._grow, at)
    monkeypatch.setattr(ModelRows, "_grow", lambda rows, missing: short(rows, missing))
    problems = three()
    making = Making(problems)
    run(problems, making)
    assert short.failed == len(at)
    assert making.capacities == [8, 4, 2][: 1 + len(at)]


@pytest.mark.parametrize("at", [{1}, {2, 9}])
def test_so_does_an_update(at: set[int], monkeypatch: pytest.MonkeyPatch) -> None:
    short = Short(new_own, at)
    monkeypatch.setattr(products, "new_own", short)
    problems = three()
    run(problems, Making(problems))
    assert short.failed == len(at)


def always(run: int, version: int) -> bool:
    return True


def test_so_does_an_evaluation() -> None:
    def score(models: Stack) -> Tensor:
        return models[:, :2]

    short = Short(score, {1, 3})
    scoring = Scoring(always, always, short)  # type: ignore[arg-type]
    problems = three()[:2]
    run(problems, Making(problems), scoring)
    assert short.failed == 2


def test_with_one_lane_left_it_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    short = Short(LaneStack.launch, set(range(5, 100)))
    monkeypatch.setattr(LaneStack, "launch", lambda *given: short(*given))
    problems = three()[:1]
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
    monkeypatch.setattr(networks, "network", wide)
    expected = [problem.alone for problem in three()]
    problems = [Problem(name, seed, device="cuda") for seed, name in enumerate(NAMES)]
    making = Making(problems)
    runs = engine(problems, making, 64)
    torch.cuda.empty_cache()
    _, total = torch.cuda.mem_get_info()
    allowed = torch.cuda.memory_reserved() + (512 << 20)
    torch.cuda.set_per_process_memory_fraction(allowed / total)
    last: dict[int, Tensor] = {}
    try:
        for run, event, _ in runs.events(at_once=3):
            assert isinstance(event, ServerVersion)
            last[run] = event.server.cpu()
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert making.capacities[-1] < 64
    for run, other in enumerate(expected):
        torch.testing.assert_close(last[run], other[-1].server, rtol=1e-10, atol=1e-10)
